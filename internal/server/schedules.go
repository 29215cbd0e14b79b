package server

import (
	"context"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/pawl-dev/pawl/internal/api"
	"github.com/pawl-dev/pawl/internal/schedules"
)

// OfSchedule is the input of requests about a schedule. It is exported because the library skips embedded types that
// are not.
type OfSchedule struct {
	Schedule string `path:"schedule" doc:"The name of the schedule."`
}

type scheduleList struct {
	Schedules []schedules.Schedule `json:"schedules"`
}

// scheduleRoutes adds the schedules.
func (s *Server) scheduleRoutes(a huma.API) {
	op := under(api.RoleRead, "GET", "/schedules", "listSchedules", "schedules", "List the schedules")
	op.Description = "With the next firings, and with those that started no run and why. The runs of one have the " +
		"label pawl.schedule with its name."
	huma.Register(a, op, func(ctx context.Context, _ *struct{}) (*answered[scheduleList], error) {
		all, err := schedules.List(ctx, s.cfg.Service, s.now())
		return body(scheduleList{all}, err)
	})
	huma.Register(a, under(api.RoleRead, "GET", "/schedules/{schedule}", "getSchedule", "schedules", "Get a schedule"),
		func(ctx context.Context, in *OfSchedule) (*answered[schedules.Schedule], error) {
			return body(schedules.Get(ctx, s.cfg.Service, in.Schedule, s.now()))
		})
	huma.Register(a, under(api.RoleRead, "GET", "/schedules/{schedule}/next", "nextFirings", "schedules",
		"Get the next firings of a schedule"),
		func(ctx context.Context, in *struct {
			OfSchedule
			N int `query:"n" default:"10" minimum:"1" maximum:"1000"`
		},
		) (*answered[firings], error) {
			all, err := schedules.Next(ctx, s.cfg.Service, in.Schedule, in.N, s.now())
			return body(firings{all}, err)
		})
	op = under(api.RoleRead, "GET", "/firings", "getFirings", "schedules", "Show what all schedules start in a week")
	op.Description = "The firings of seven days, hour by hour, by what became of them: those that started a run, " +
		"those that were missed, and those to come."
	huma.Register(a, op, func(ctx context.Context, in *struct {
		From instant `query:"from" doc:"The beginning of the week; default three days before today, in UTC."`
	},
	) (*answered[schedules.Week], error) {
		from := in.From.Std()
		if in.From.Time == 0 {
			from = s.now().UTC().Truncate(24*time.Hour).AddDate(0, 0, -3)
		}
		return body(schedules.WeekFrom(ctx, s.cfg.Service, from, s.now()))
	})
	for verb, summary := range map[string]string{
		"pause":    "Start no runs until it is resumed",
		"resume":   "Go on with the next firing",
		"trigger":  "Start a run now",
		"skip":     "Take one firing out",
		"unskip":   "Take a firing in again",
		"backfill": "Start runs for the firings of a span that have none",
		"update":   "Give it other times and rules",
		"remove":   "End it; its runs go on",
	} {
		op := under(api.RoleOperate, "POST", "/schedules/{schedule}/"+verb, verb+"Schedule", "schedules", summary)
		huma.Register(a, op, func(ctx context.Context, in *struct {
			OfSchedule
			Body *schedules.ScheduleChange
		},
		) (*answered[schedules.ScheduleChanged], error) {
			var c schedules.ScheduleChange
			if in.Body != nil {
				c = *in.Body
			}
			return body(schedules.Do(ctx, s.cfg.Service, in.Schedule, verb, c, s.now()))
		})
	}
}

// firings are instants at which a schedule fires.
type firings struct {
	Firings []api.Time `json:"firings"`
}

// now returns the time of the service's runs.
func (s *Server) now() time.Time {
	if s.cfg.Now != nil {
		return s.cfg.Now()
	}
	return time.Now()
}
