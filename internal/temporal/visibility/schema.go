package visibility

import (
	"maps"

	enumspb "go.temporal.io/api/enums/v1"
)

// The fields that each workflow has.
const (
	fieldID        = "WorkflowId"
	fieldRun       = "RunId"
	fieldType      = "WorkflowType"
	fieldStatus    = "ExecutionStatus"
	fieldStart     = "StartTime"
	fieldExecution = "ExecutionTime"
	fieldClose     = "CloseTime"
	fieldDuration  = "ExecutionDuration"
	fieldQueue     = "TaskQueue"
	fieldLength    = "HistoryLength"
	fieldSize      = "HistorySizeBytes"
	fieldParent    = "ParentWorkflowId"
	fieldParentRun = "ParentRunId"
	fieldRoot      = "RootWorkflowId"
	fieldRootRun   = "RootRunId"
)

// Types of fields, with the names of the protocol.
const (
	aKeyword     = enumspb.INDEXED_VALUE_TYPE_KEYWORD
	aText        = enumspb.INDEXED_VALUE_TYPE_TEXT
	anInt        = enumspb.INDEXED_VALUE_TYPE_INT
	aDouble      = enumspb.INDEXED_VALUE_TYPE_DOUBLE
	aBool        = enumspb.INDEXED_VALUE_TYPE_BOOL
	aTime        = enumspb.INDEXED_VALUE_TYPE_DATETIME
	aKeywordList = enumspb.INDEXED_VALUE_TYPE_KEYWORD_LIST
	// aStatus and aDuration are those of a field each, whose values have forms of their own.
	aStatus   = enumspb.IndexedValueType(-1)
	aDuration = enumspb.IndexedValueType(-2)
)

// system has the types of the fields that each workflow has.
var system = map[string]enumspb.IndexedValueType{
	fieldID: aKeyword, fieldRun: aKeyword, fieldType: aKeyword, fieldStatus: aStatus, fieldQueue: aKeyword,
	fieldStart: aTime, fieldExecution: aTime, fieldClose: aTime, fieldDuration: aDuration, fieldLength: anInt,
	fieldSize: anInt, fieldParent: aKeyword, fieldParentRun: aKeyword, fieldRoot: aKeyword, fieldRootRun: aKeyword,
}

// custom has the attributes that workflows may have, as Temporal's development server has them.
var custom = map[string]enumspb.IndexedValueType{
	"CustomKeywordField": aKeyword, "CustomStringField": aText, "CustomTextField": aText, "CustomIntField": anInt,
	"CustomDoubleField": aDouble, "CustomBoolField": aBool, "CustomDatetimeField": aTime,
	"CustomKeywordListField": aKeywordList,
}

// typeOf returns the type of a field, and whether there is such a field.
func typeOf(field string) (enumspb.IndexedValueType, bool) {
	if kind, is := system[field]; is {
		return kind, true
	}
	kind, is := custom[field]
	return kind, is
}

func isText(kind enumspb.IndexedValueType) bool {
	return kind == aKeyword || kind == aText || kind == aKeywordList
}

// System returns the types of the fields that each workflow has.
func System() map[string]enumspb.IndexedValueType {
	out := maps.Clone(system)
	out[fieldStatus], out[fieldDuration] = aKeyword, anInt
	return out
}

// Custom returns the types of the attributes that workflows may have.
func Custom() map[string]enumspb.IndexedValueType { return maps.Clone(custom) }
