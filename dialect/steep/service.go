package steep

import (
	"github.com/pawl-dev/pawl/dialect/internal/form"
	"github.com/pawl-dev/pawl/flow"
)

// service is a program's metadata.
type service struct {
	id, path string
	params   []*serviceParam
	in       flow.Value
	file     *form.File
}

type serviceParam struct {
	id        string
	output    bool
	low, high int
	dataType  string
	value     flow.Value // the default
	suffix    string
	label     string
}

// The data types that mean something here; all others are texts.
const (
	typeBoolean         = "boolean"
	typeDirectory       = "directory"
	typeFileOrEmptyList = "fileOrEmptyList"
)

func (r *reader) services(root flow.Value) map[string]*service {
	out := map[string]*service{}
	for _, item := range r.List(root, "a file of services") {
		if !r.Object(item, "a service", "id", "name", "description", "path", "runtime", "parameters", "runtimeArgs",
			"requiredCapabilities", "retries", "maxInactivity", "maxRuntime", "deadline") {
			continue
		}
		s := &service{in: item, file: r.File}
		s.id = r.Need(item, "the service", "id")
		s.path = r.Need(item, "the service", "path")
		if _, twice := out[s.id]; twice {
			r.Fail(item.At("id").Pos(), "", "there already is a service %q", s.id)
			continue
		}
		r.runtime(item, s.id)
		if len(item.Get("requiredCapabilities").Items()) > 0 {
			r.Note(item.Key("requiredCapabilities"), "requiredCapabilities has no counterpart: the program runs where Pawl runs")
		}
		ids := map[string]bool{}
		for _, p := range r.List(item.Get("parameters"), "parameters") {
			if !r.Object(p, "a service's parameter", "id", "name", "description", "type", "cardinality", "dataType", "default",
				"fileSuffix", "label") {
				continue
			}
			param := r.serviceParam(p)
			if ids[param.id] {
				r.Fail(p.At("id").Pos(), "", "service %q already has a parameter %q", s.id, param.id)
			}
			ids[param.id] = true
			s.params = append(s.params, param)
		}
		out[s.id] = s
	}
	return out
}

// runtime refuses what is not there to run a service in.
func (r *reader) runtime(v flow.Value, id string) {
	runtime := r.Need(v, "the service", "runtime")
	switch runtime {
	case "", "other":
		if len(v.Get("runtimeArgs").Items()) > 0 {
			r.Note(v.Key("runtimeArgs"), "runtimeArgs has no counterpart: the runtime other takes none")
		}
	case "docker", "kubernetes":
		r.Fail(v.Get("runtime").Pos(), "wrap the call in a script and give it the runtime other",
			"service %q needs the runtime %s, which Pawl does not have", id, runtime)
	default:
		r.Fail(v.Get("runtime").Pos(), "wrap the call in a script and give it the runtime other",
			"service %q needs the runtime %q, a plugin that Pawl does not have", id, runtime)
	}
}

func (r *reader) serviceParam(v flow.Value) *serviceParam {
	p := &serviceParam{
		id: r.Need(v, "the parameter", "id"), output: r.direction(v), dataType: r.Text(v, "dataType"), value: v.Get("default"),
		suffix: r.Text(v, "fileSuffix"), label: r.Text(v, "label"),
	}
	p.low, p.high = r.cardinality(v)
	r.constant(p.value)
	return p
}
