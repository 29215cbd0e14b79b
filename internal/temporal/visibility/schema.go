package visibility

import (
	"maps"

	enumspb "go.temporal.io/api/enums/v1"
)

// system has the types of the fields that each workflow has.
var system = map[string]enumspb.IndexedValueType{
	fieldID: enumspb.INDEXED_VALUE_TYPE_KEYWORD, fieldRun: enumspb.INDEXED_VALUE_TYPE_KEYWORD,
	fieldType: enumspb.INDEXED_VALUE_TYPE_KEYWORD, fieldStatus: enumspb.INDEXED_VALUE_TYPE_KEYWORD,
	fieldQueue: enumspb.INDEXED_VALUE_TYPE_KEYWORD, fieldStart: enumspb.INDEXED_VALUE_TYPE_DATETIME,
	fieldExecution: enumspb.INDEXED_VALUE_TYPE_DATETIME, fieldClose: enumspb.INDEXED_VALUE_TYPE_DATETIME,
}

// System returns the types of the fields that each workflow has.
func System() map[string]enumspb.IndexedValueType { return maps.Clone(system) }
