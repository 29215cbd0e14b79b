package httpapi

import (
	"encoding/json"
	"reflect"
	"testing"

	"github.com/pawl-dev/pawl/internal/api"
)

// fill gives every field a value, so that one that is not carried over is noticed.
func fill(v reflect.Value) {
	switch {
	case v.Type() == reflect.TypeFor[json.RawMessage]():
		v.SetBytes([]byte(`"x"`))
		return
	case !v.CanSet():
		return
	}
	switch v.Kind() {
	case reflect.String:
		v.SetString("x")
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int8, reflect.Int32, reflect.Int64:
		v.SetInt(1)
	case reflect.Uint8:
		v.SetUint(1)
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		own := reflect.TypeFor[api.Run]().PkgPath()
		if v.Elem().Kind() != reflect.Struct || v.Type().Elem().PkgPath() == own {
			fill(v.Elem())
		}
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(reflect.ValueOf("k"), reflect.ValueOf("v"))
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fill(v.Index(0))
	case reflect.Struct:
		for i := range v.NumField() {
			fill(v.Field(i))
		}
	default:
		panic("a field of a kind that has no value here: " + v.Kind().String())
	}
}

// TestRequestsAreWhole checks that a caller's request crosses the wire whole: no field of a request is left behind.
func TestRequestsAreWhole(t *testing.T) {
	var start api.StartRequest
	fill(reflect.ValueOf(&start).Elem())
	body := bodyOf(start)
	if got := body.Request(*body.Definition); !reflect.DeepEqual(got, start) {
		t.Errorf("a start became\n%+v\nfrom\n%+v", got, start)
	}
	var op api.Operation
	fill(reflect.ValueOf(&op).Elem())
	operate := operateBodyOf(op)
	if got := operate.Operation(op.Operation, op.Step); !reflect.DeepEqual(got, op) {
		t.Errorf("an operation became\n%+v\nfrom\n%+v", got, op)
	}
	var q api.Query
	fill(reflect.ValueOf(&q).Elem())
	crossing := 0 // fields; the server makes the others of the text
	for i := range reflect.TypeFor[api.Query]().NumField() {
		if reflect.TypeFor[api.Query]().Field(i).Tag.Get("json") != "-" {
			crossing++
		}
	}
	if v := values(q); len(v) != crossing {
		t.Errorf("a query with %d fields became %s", crossing, v.Encode())
	}
}
