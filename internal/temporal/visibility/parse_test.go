package visibility

import (
	"strings"
	"testing"
	"time"

	commonpb "go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"

	"github.com/pawl-dev/pawl/internal/core"
)

var subjects = []Subject{
	{
		ID: "a", Run: "1", Type: "Work", Queue: "desk", Length: 7, Parent: "top",
		Attributes: map[string]*commonpb.Payload{
			"CustomKeywordField": {Data: []byte(`"red"`)}, "CustomIntField": {Data: []byte("12")},
			"CustomDoubleField": {Data: []byte("1.5")}, "CustomBoolField": {Data: []byte("true")},
			"CustomDatetimeField":    {Data: []byte(`"2026-05-17T10:00:00Z"`)},
			"CustomKeywordListField": {Data: []byte(`["x","y"]`)},
		}, Status: enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING,
		Start: time.Unix(1_000_000_000, 0), Execution: time.Unix(1_000_000_060, 0),
	},
	{
		ID: "it's b", Run: "2", Type: "Work", Queue: "other", Status: enumspb.WORKFLOW_EXECUTION_STATUS_FAILED,
		Start: time.Unix(1_100_000_000, 0), Execution: time.Unix(1_100_000_000, 0), Close: time.Unix(1_100_000_100, 0),
	},
}

// TestSelects checks which of two workflows queries select.
func TestSelects(t *testing.T) {
	for query, want := range map[string]string{
		"":                                    "1 2",
		"WorkflowId = 'a'":                    "1",
		"WorkflowId = 'it''s b'":              "2",
		`WorkflowId = "it's b"`:               "2",
		`WorkflowId = 'it\'s b'`:              "2",
		"`WorkflowId` != 'a'":                 "2",
		"WorkflowType='Work' AND RunId='2'":   "2",
		"WorkflowId in ('a', 'c')":            "1",
		"WorkflowId NOT IN ('a')":             "2",
		"TaskQueue = 'desk'":                  "1",
		"ExecutionStatus = 'Failed'":          "2",
		"ExecutionStatus = 1":                 "1",
		"ExecutionStatus IN (1, 'Failed')":    "1 2",
		"StartTime < 1050000000000000000":     "1",
		"StartTime >= '2004-01-01T00:00:00Z'": "2",
		"StartTime BETWEEN '2001-01-01T00:00:00Z' AND '2002-01-01T00:00:00Z' AND RunId = '1'": "1",
		"ExecutionTime > StartTime":                              "invalid",
		"CloseTime <= '2030-01-01T00:00:00Z'":                    "2",
		"CloseTime != '2030-01-01T00:00:00Z'":                    "2",
		"WorkflowId = 'a' OR RunId = '2'":                        "1 2",
		"NOT WorkflowId = 'a'":                                   "2",
		"NOT (WorkflowId = 'a' OR RunId = '2')":                  "",
		"WorkflowType = 'Work' AND (RunId = '1' OR RunId = '3')": "1",
		"RunId = '1' OR RunId = '2' AND WorkflowId = 'a'":        "1",
		"(RunId = '1' OR RunId = '2') AND TaskQueue = 'other'":   "2",
		"WorkflowId STARTS_WITH 'it'":                            "2",
		"WorkflowId NOT STARTS_WITH 'it'":                        "1",
		"CloseTime IS NULL":                                      "1",
		"CloseTime IS NOT NULL":                                  "2",
		"ParentWorkflowId IS NULL":                               "2",
		"ParentWorkflowId = 'top'":                               "1",
		"ExecutionDuration > '1m30s'":                            "2",
		"ExecutionDuration < 100000000001":                       "2",
		"HistoryLength >= 7":                                     "1",
		"CustomKeywordField = 'red'":                             "1",
		"CustomKeywordField != 'red'":                            "",
		"CustomIntField BETWEEN 10 AND 12":                       "1",
		"CustomIntField > 12":                                    "",
		"CustomDoubleField < 1.6":                                "1",
		"CustomBoolField = true":                                 "1",
		"CustomDatetimeField > '2026-05-17T09:00:00Z'":           "1",
		"CustomKeywordListField = 'y'":                           "1",
		"CustomKeywordListField NOT IN ('x', 'z')":               "",
		"WorkflowType = 'Work' ORDER BY StartTime DESC":          "1 2",
		"ORDER BY StartTime DESC":                                "1 2",
		"ORDER BY CloseTime DESC":                                "invalid",
		"Unknown = 'x'":                                          "invalid",
		"(RunId = '1'":                                           "invalid",
		"CustomIntField = 'red'":                                 "invalid",
		"CustomIntField STARTS_WITH '1'":                         "invalid",
		"WorkflowId IS 'a'":                                      "invalid",
	} {
		got := "invalid"
		if f, err := Parse(query); err == nil {
			var ids []string
			for i := range subjects {
				if f.Selects(&subjects[i]) {
					ids = append(ids, subjects[i].Run)
				}
			}
			got = strings.Join(ids, " ")
		}
		if got != want {
			t.Errorf("%s selects %s, want %s", query, got, want)
		}
	}
}

// FuzzParse checks that no query makes the parser panic, and that what a list of runs has of a workflow never leaves
// out one that is selected.
func FuzzParse(f *testing.F) {
	for _, query := range []string{
		"WorkflowId = 'a' AND StartTime > '2001-01-01T00:00:00Z'", "ExecutionStatus NOT IN (1, \"Failed\")",
		"CloseTime BETWEEN 1 AND 2", "(",
		"NOT (TaskQueue = 'desk' OR RunId = '1') AND CloseTime IS NULL", "`",
		"WorkflowId = 'a' AND", "IN IN IN", "RunId != '\\'",
	} {
		f.Add(query)
	}
	f.Fuzz(func(t *testing.T, query string) {
		filter, err := Parse(query)
		if err != nil {
			return
		}
		q := filter.Query()
		for i := range subjects {
			s := &subjects[i]
			if !filter.Selects(s) {
				continue
			}
			phase := core.RunRunning
			if !s.Close.IsZero() {
				phase = core.RunFailed
			}
			found := len(q.Phases) == 0
			for _, p := range q.Phases {
				found = found || p == phase
			}
			early := q.CreatedFrom != 0 && q.CreatedFrom > core.Time(s.Start.UnixMicro())
			if !filter.Row(s) || !found || early || q.WorkflowID != "" && q.WorkflowID != s.ID {
				t.Errorf("%q selects %s, and the list of runs does not find it", query, s.ID)
			}
		}
	})
}
