package temporal

import (
	"context"
	"maps"
	"slices"

	commonpb "go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"
	filterpb "go.temporal.io/api/filter/v1"
	"go.temporal.io/api/serviceerror"
	workflowpb "go.temporal.io/api/workflow/v1"
	"go.temporal.io/api/workflowservice/v1"

	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/journal"
	"github.com/pawl-dev/pawl/internal/temporal/convert"
	"github.com/pawl-dev/pawl/internal/temporal/history"
	"github.com/pawl-dev/pawl/internal/temporal/visibility"
)

const (
	// listForm is the first byte of the token of a page of a list.
	listForm = 'l'
	// listPage is how many workflows a page has at most, and scanned how many rows are read at once.
	listPage = 1000
	scanned  = 500
)

// readPlace reads the token of a page: the last run of the page before. Errors: it is no such token.
func readPlace(token []byte) (last core.RunID, err error) {
	if len(token) == 0 {
		return last, nil
	}
	if len(token) != 1+len(last) || token[0] != listForm {
		return last, serviceerror.NewInvalidArgument("Invalid NextPageToken.")
	}
	copy(last[:], token[1:])
	return last, nil
}

// listed is a page of a list.
type listed struct {
	executions []*workflowpb.WorkflowExecutionInfo
	next       []byte // the token of the next page; nil: there is none
}

// list returns a page of the workflows that a filter selects, the newest first.
func list(ctx context.Context, s *Frontend, f *visibility.Filter, size int, token []byte) (listed, error) {
	var out listed
	last, err := readPlace(token)
	if err != nil {
		return out, err
	}
	if size <= 0 || size > listPage {
		size = listPage
	}
	err = each(ctx, s, f, last, func(row *journal.RunRow) (bool, error) {
		r, err := s.use(ctx, &commonpb.WorkflowExecution{RunId: row.ID.String()})
		if isNotFound(err) || absent(err) { // it was removed meanwhile
			return true, nil
		}
		if err != nil {
			return false, err
		}
		info := infoOf(r)
		r.Release()
		if f.Selects(subjectOf(info)) {
			out.executions = append(out.executions, info)
		}
		if len(out.executions) < size {
			return true, nil
		}
		out.next = append([]byte{listForm}, row.ID[:]...)
		return false, nil
	})
	return out, err
}

// subjectOf returns what conditions are about.
func subjectOf(info *workflowpb.WorkflowExecutionInfo) *visibility.Subject {
	w := &visibility.Subject{
		ID: info.Execution.WorkflowId, Run: info.Execution.RunId, Type: info.Type.GetName(), Queue: info.TaskQueue,
		Status: info.Status, Start: info.StartTime.AsTime(), Execution: info.ExecutionTime.AsTime(),
		Length: info.HistoryLength, Size: info.HistorySizeBytes,
		Parent: info.ParentExecution.GetWorkflowId(), ParentRun: info.ParentExecution.GetRunId(),
		Root: info.RootExecution.GetWorkflowId(), RootRun: info.RootExecution.GetRunId(),
		Attributes: info.SearchAttributes.GetIndexedFields(),
	}
	if info.CloseTime != nil {
		w.Close = info.CloseTime.AsTime()
	}
	return w
}

// each calls fn with the rows of the workflows that a filter may select, behind the run last, until fn returns false.
func each(
	ctx context.Context, s *Frontend, f *visibility.Filter, last core.RunID, fn func(*journal.RunRow) (bool, error),
) error {
	q := f.Query()
	q.Limit, q.After = scanned, last
	for {
		page, err := s.engine.List(ctx, q)
		if err != nil {
			return err
		}
		for i := range page.Runs {
			row := &page.Runs[i]
			if row.Definition != history.DefinitionID(row.Workflow) || !f.Row(rowOf(row)) {
				continue
			}
			if more, err := fn(row); err != nil || !more {
				return err
			}
		}
		if !page.More || len(page.Runs) == 0 {
			return ctx.Err()
		}
		q.GoOn(&page.Runs[len(page.Runs)-1])
	}
}

// rowOf returns what a list of runs has of a workflow.
func rowOf(row *journal.RunRow) *visibility.Subject {
	w := &visibility.Subject{
		ID: row.WorkflowID, Run: row.ID.String(), Type: row.Workflow, Status: visibility.StatusOf(row.Phase),
		Start: row.CreatedAt.Std(),
	}
	if row.EndedAt != 0 {
		w.Close = row.EndedAt.Std()
	}
	return w
}

// parse reads a query.
func parse(query string) (*visibility.Filter, error) {
	f, err := visibility.Parse(query)
	if err != nil {
		return nil, serviceerror.NewInvalidArgument(err.Error())
	}
	return f, nil
}

// parseList reads the query of a list.
func parseList(query string) (*visibility.Filter, error) {
	f, err := parse(query)
	if err == nil && f.Groups {
		err = serviceerror.NewInvalidArgument("invalid query: GROUP BY is for counts, not for lists")
	}
	return f, err
}

// ListWorkflowExecutions lists the workflows that a query selects.
func (s *Frontend) ListWorkflowExecutions(
	ctx context.Context, q *workflowservice.ListWorkflowExecutionsRequest,
) (*workflowservice.ListWorkflowExecutionsResponse, error) {
	f, err := parseList(q.Query)
	if err != nil {
		return nil, err
	}
	page, err := list(ctx, s, f, int(q.PageSize), q.NextPageToken)
	return &workflowservice.ListWorkflowExecutionsResponse{
		Executions: page.executions, NextPageToken: page.next,
	}, err
}

// ScanWorkflowExecutions lists as ListWorkflowExecutions does.
func (s *Frontend) ScanWorkflowExecutions(
	ctx context.Context, q *workflowservice.ScanWorkflowExecutionsRequest,
) (*workflowservice.ScanWorkflowExecutionsResponse, error) {
	f, err := parseList(q.Query)
	if err != nil {
		return nil, err
	}
	page, err := list(ctx, s, f, int(q.PageSize), q.NextPageToken)
	return &workflowservice.ScanWorkflowExecutionsResponse{
		Executions: page.executions, NextPageToken: page.next,
	}, err
}

// CountWorkflowExecutions counts the workflows that a query selects.
func (s *Frontend) CountWorkflowExecutions(
	ctx context.Context, q *workflowservice.CountWorkflowExecutionsRequest,
) (*workflowservice.CountWorkflowExecutionsResponse, error) {
	f, err := parse(q.Query)
	if err != nil {
		return nil, err
	}
	counts := map[enumspb.WorkflowExecutionStatus]int64{}
	err = each(ctx, s, f, core.RunID{}, func(row *journal.RunRow) (bool, error) {
		status := visibility.StatusOf(row.Phase)
		if f.Needs() {
			r, err := s.use(ctx, &commonpb.WorkflowExecution{RunId: row.ID.String()})
			if isNotFound(err) || absent(err) {
				return true, nil
			}
			if err != nil {
				return false, err
			}
			info := infoOf(r)
			r.Release()
			if !f.Selects(subjectOf(info)) {
				return true, nil
			}
		}
		counts[status]++
		return true, nil
	})
	return counted(counts, f.Groups), err
}

// counted returns how many workflows there are, in groups by their status if that was asked for.
func counted(
	counts map[enumspb.WorkflowExecutionStatus]int64, groups bool,
) *workflowservice.CountWorkflowExecutionsResponse {
	out := &workflowservice.CountWorkflowExecutionsResponse{}
	for _, status := range slices.Sorted(maps.Keys(counts)) {
		out.Count += counts[status]
		if groups {
			out.Groups = append(out.Groups, &workflowservice.CountWorkflowExecutionsResponse_AggregationGroup{
				Count: counts[status], GroupValues: []*commonpb.Payload{convert.Keyword(status.String())},
			})
		}
	}
	return out
}

// older returns the filter of a list that has no query: of open workflows, or of closed ones.
type older struct {
	start *filterpb.StartTimeFilter
	id    string
	kind  string
	// status selects workflows that have ended so; zero: those that have ended, or are open.
	status enumspb.WorkflowExecutionStatus
	closed bool
}

func (o *older) filter() *visibility.Filter {
	f := &visibility.Filter{}
	if o.start.GetEarliestTime() != nil {
		f.StartedFrom(o.start.EarliestTime.AsTime())
	}
	if o.start.GetLatestTime() != nil {
		f.StartedUntil(o.start.LatestTime.AsTime())
	}
	if o.id != "" {
		f.HasID(o.id)
	}
	if o.kind != "" {
		f.HasType(o.kind)
	}
	switch {
	case o.status != 0:
		f.HasStatus(o.status)
	default:
		f.IsClosed(o.closed)
	}
	return f
}

// ListOpenWorkflowExecutions lists open workflows.
func (s *Frontend) ListOpenWorkflowExecutions(
	ctx context.Context, q *workflowservice.ListOpenWorkflowExecutionsRequest,
) (*workflowservice.ListOpenWorkflowExecutionsResponse, error) {
	o := older{
		start: q.StartTimeFilter, id: q.GetExecutionFilter().GetWorkflowId(), kind: q.GetTypeFilter().GetName(),
	}
	page, err := list(ctx, s, o.filter(), int(q.MaximumPageSize), q.NextPageToken)
	return &workflowservice.ListOpenWorkflowExecutionsResponse{
		Executions: page.executions, NextPageToken: page.next,
	}, err
}

// ListClosedWorkflowExecutions lists workflows that have ended.
func (s *Frontend) ListClosedWorkflowExecutions(
	ctx context.Context, q *workflowservice.ListClosedWorkflowExecutionsRequest,
) (*workflowservice.ListClosedWorkflowExecutionsResponse, error) {
	o := older{
		start: q.StartTimeFilter, id: q.GetExecutionFilter().GetWorkflowId(), kind: q.GetTypeFilter().GetName(),
		status: q.GetStatusFilter().GetStatus(), closed: true,
	}
	page, err := list(ctx, s, o.filter(), int(q.MaximumPageSize), q.NextPageToken)
	return &workflowservice.ListClosedWorkflowExecutionsResponse{
		Executions: page.executions, NextPageToken: page.next,
	}, err
}
