package server

import (
	"context"
	"encoding/json"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/pawl-dev/pawl/internal/api"
	"github.com/pawl-dev/pawl/internal/api/httpapi"
	"github.com/pawl-dev/pawl/policy"
)

// OfTask is the input of a report. It is exported because the library skips embedded types that are not.
type OfTask struct {
	Task string `path:"task" doc:"The token of the task, as the poll gave it."`
}

// reportBodies are the bodies of reports with a path of their own.
type (
	signBody struct {
		Details json.RawMessage `json:"details,omitempty" doc:"Progress of the work, which the next attempt gets."`
	}
	completeBody struct {
		Output json.RawMessage `json:"output,omitempty" doc:"The output of the step."`
	}
	stoppedBody struct {
		Abandoned bool `json:"abandoned,omitempty" doc:"The work could not be stopped."`
	}
)

const taskText = `A worker polls a queue, executes what it gets, and reports each task as complete or fail. A
heartbeat may have details, and its answer tells what is left of each clock and whether the attempt has ended (stop):
then the worker stops the work and reports stopped. A report on an attempt that has ended answers 409 and tells what
happened instead.`

// taskRoutes adds what workers do.
func (s *Server) taskRoutes(a huma.API) {
	if s.cfg.Tasks == nil {
		s.cfg.Tasks = noTasks{}
	}
	op := under(api.RoleWorker, "POST", "/tasks/poll", "pollTasks", "workers",
		"Take tasks from a queue, or wait for one")
	op.Description = taskText
	huma.Register(a, op, func(ctx context.Context, in *struct{ Body api.PollRequest }) (*answered[taskList], error) {
		if err := mayTake(ctx, in.Body.Queue); err != nil {
			return nil, httpapi.ProblemOf(err)
		}
		in.Body.May = s.stillCounts
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		defer context.AfterFunc(s.over, cancel)()
		tasks, err := s.cfg.Tasks.Poll(ctx, in.Body)
		if tasks == nil {
			tasks = []api.Task{}
		}
		return body(taskList{tasks}, err)
	})
	op = under(api.RoleWorker, "POST", "/tasks/report", "reportTasks", "workers", "Report on many tasks at once")
	op.Description = "Each report is answered by itself: one that is refused has an error, the others have answers."
	huma.Register(a, op, func(ctx context.Context, in *struct {
		Body struct {
			Reports []api.TaskReport `json:"reports" maxItems:"1000"`
		}
	},
	) (*answered[answerList], error) {
		answers, err := s.cfg.Tasks.Report(ctx, in.Body.Reports)
		return body(answerList{answers}, err)
	})
	s.reportRoutes(a)
	addTaskArtifactRoutes(s, a)
}

// reportRoutes adds a path for each kind of report, for workers that have one task at a time.
func (s *Server) reportRoutes(a huma.API) {
	for _, r := range []struct{ kind, summary string }{
		{api.TaskStart, "Report that the work of a task begins"},
		{api.TaskHeartbeat, "Report that the work of a task goes on"},
	} {
		op := under(api.RoleWorker, "POST", "/tasks/{task}/"+r.kind, r.kind+"Task", "workers", r.summary)
		huma.Register(a, op, func(ctx context.Context, in *struct {
			OfTask
			Body *signBody
		},
		) (*answered[api.TaskAnswer], error) {
			report := api.TaskReport{Task: in.Task, Kind: r.kind}
			if in.Body != nil {
				report.Details = in.Body.Details
			}
			return body(s.reportOne(ctx, report))
		})
	}
	op := under(api.RoleWorker, "POST", "/tasks/{task}/complete", "completeTask", "workers",
		"Report that a task has succeeded")
	op.DefaultStatus = http.StatusNoContent
	huma.Register(a, op, func(ctx context.Context, in *struct {
		OfTask
		Body *completeBody
	},
	) (*struct{}, error) {
		report := api.TaskReport{Task: in.Task, Kind: api.TaskComplete}
		if in.Body != nil {
			report.Output = in.Body.Output
		}
		_, err := s.reportOne(ctx, report)
		return done(err)
	})
	op = under(api.RoleWorker, "POST", "/tasks/{task}/fail", "failTask", "workers", "Report that a task has failed")
	op.DefaultStatus = http.StatusNoContent
	huma.Register(a, op, func(ctx context.Context, in *struct {
		OfTask
		Body *policy.Failure
	},
	) (*struct{}, error) {
		_, err := s.reportOne(ctx, api.TaskReport{Task: in.Task, Kind: api.TaskFail, Failure: in.Body})
		return done(err)
	})
	op = under(api.RoleWorker, "POST", "/tasks/{task}/stopped", "stoppedTask", "workers",
		"Report that the work of a task has stopped")
	op.DefaultStatus = http.StatusNoContent
	huma.Register(a, op, func(ctx context.Context, in *struct {
		OfTask
		Body *stoppedBody
	},
	) (*struct{}, error) {
		report := api.TaskReport{Task: in.Task, Kind: api.TaskStopped}
		if in.Body != nil {
			report.Abandoned = in.Body.Abandoned
		}
		_, err := s.reportOne(ctx, report)
		return done(err)
	})
}

// reportOne takes one report.
func (s *Server) reportOne(ctx context.Context, r api.TaskReport) (api.TaskAnswer, error) {
	answers, err := s.cfg.Tasks.Report(ctx, []api.TaskReport{r})
	if err != nil {
		return api.TaskAnswer{}, err
	}
	if answers[0].Error != nil {
		return api.TaskAnswer{}, answers[0].Error
	}
	return answers[0], nil
}

type taskList struct {
	Tasks []api.Task `json:"tasks"`
}

type answerList struct {
	Answers []api.TaskAnswer `json:"answers"`
}

// noTasks answers where no engine hands out tasks.
type noTasks struct{}

func (noTasks) Poll(context.Context, api.PollRequest) ([]api.Task, error) {
	return nil, &api.Error{Code: api.CodeReadOnly, Op: "poll", Message: "this server hands out no tasks"}
}

func (noTasks) Report(context.Context, []api.TaskReport) ([]api.TaskAnswer, error) {
	return nil, &api.Error{Code: api.CodeReadOnly, Op: "report", Message: "this server hands out no tasks"}
}
