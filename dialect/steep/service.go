package steep

import (
	"slices"
	"strings"

	"github.com/pawl-dev/pawl/internal/tree"
)

// service is a program's metadata.
type service struct {
	id, path    string
	description string
	params      []*serviceParam
	in          tree.Value
	reader      *reader
	used        bool
}

type serviceParam struct {
	id        string
	output    bool
	low, high int
	dataType  string
	value     tree.Value // the default
	suffix    string
	label     string
	in        tree.Value
}

// The data types that mean something here; all others are texts.
const (
	typeBoolean         = "boolean"
	typeDirectory       = "directory"
	typeFileOrEmptyList = "fileOrEmptyList"
)

// services reads a file of services and adds them to those that are known.
func (r *reader) services(root tree.Value, out map[string]*service) {
	for _, item := range r.List(root, "a file of services") {
		if !r.Object(item, "a service", "id", "name", "description", "path", "runtime", "parameters", "runtimeArgs",
			"requiredCapabilities", "retries", "maxInactivity", "maxRuntime", "deadline") {
			continue
		}
		s := &service{in: item, reader: r}
		s.id = r.Need(item, "the service", "id")
		s.path = r.Need(item, "the service", "path")
		s.description = strings.TrimSpace(r.Text(item, "description"))
		if name := strings.TrimSpace(r.Text(item, "name")); name != "" && name != s.id {
			s.description = strings.TrimSuffix(name+": "+s.description, ": ")
		}
		if other := out[s.id]; other != nil && s.id != "" {
			r.Fail(item.At("id").Pos(), "", "there already is a service %q, at %s", s.id,
				other.reader.Place(other.in.At("id").Pos()))
			continue
		}
		r.Need(item, "the service", "runtime")
		r.List(item.Get("requiredCapabilities"), "requiredCapabilities")
		r.List(item.Get("runtimeArgs"), "runtimeArgs")
		ids := map[string]bool{}
		for _, p := range r.List(item.Get("parameters"), "parameters") {
			if !r.Object(p, "a service's parameter", "id", "name", "description", "type", "cardinality",
				"dataType", "default",
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
}

// plainTypes are the data types of texts that are handed over as they are.
var plainTypes = []string{"", "string", "integer", "float", typeBoolean, typeDirectory, typeFileOrEmptyList}

// use refuses a service that cannot be run here if an action executes it, and notes its fields that have no
// counterpart. An installation has more services than a workflow uses; what those need does not matter.
func (s *service) use() {
	if s.used {
		return
	}
	s.used = true
	r, v := s.reader, s.in
	switch runtime, _ := v.Get("runtime").Text(); runtime {
	case "other":
	case "docker", "kubernetes":
		r.Fail(v.Get("runtime").Pos(), "wrap the call in a script and give it the runtime other",
			"service %q needs the runtime %s, which Pawl does not have", s.id, runtime)
	default:
		r.Fail(v.Get("runtime").Pos(), "wrap the call in a script and give it the runtime other",
			"service %q needs the runtime %q, a plugin that Pawl does not have", s.id, runtime)
	}
	if len(v.Get("runtimeArgs").Items()) > 0 {
		r.Note(v.Key("runtimeArgs"), "runtimeArgs has no counterpart: the runtime other takes none")
	}
	if len(v.Get("requiredCapabilities").Items()) > 0 {
		r.Note(v.Key("requiredCapabilities"),
			"requiredCapabilities has no counterpart: the program runs where Pawl runs")
	}
	for _, p := range s.params {
		r.Documents(p.in, "name", "description")
		if !slices.Contains(plainTypes, p.dataType) {
			r.Note(p.in.Key("dataType"),
				"dataType %s has no counterpart: a plugin of Steep may change such values; here they are "+
					"handed over as they are", p.dataType)
		}
		if p.output && !p.value.IsZero() {
			r.Note(p.in.Key("default"), "default has no counterpart in an output: Steep names the file")
		}
		if !p.output && !p.value.IsZero() && (p.low != 1 || p.high != 1) {
			r.Note(p.in.Key("default"),
				"default has no effect, as in Steep: the cardinality is %s and not 1..1", p.bounds())
		}
		if !p.output && p.suffix != "" {
			r.Note(p.in.Key("fileSuffix"), "fileSuffix has no counterpart in an input: it names files that are made")
		}
	}
}

func (r *reader) serviceParam(v tree.Value) *serviceParam {
	p := &serviceParam{
		id: r.Need(v, "the parameter", "id"), output: r.direction(v), dataType: r.Text(v, "dataType"),
		value:  v.Get("default"),
		suffix: r.Text(v, "fileSuffix"), label: r.Text(v, "label"), in: v,
	}
	p.low, p.high = r.cardinality(v)
	r.constant(p.value)
	return p
}
