package golden

import (
	"iter"
	"reflect"
)

// fill sets every field of a value, also behind its pointers, to something that is not zero.
func fill(v reflect.Value, depth int) {
	switch name := v.Type().Name(); {
	case v.Kind() == reflect.String && (name == "Headers" || name == "Labels"):
		v.SetString("key=value")
		return
	case name == "RawMessage":
		v.SetBytes([]byte(`{"a":1}`))
		return
	}
	switch v.Kind() {
	case reflect.Interface: // stays nil
	case reflect.String:
		v.SetString("größer <&> 1")
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Uint8:
		v.SetUint(1)
	case reflect.Uint, reflect.Uint32, reflect.Uint64:
		v.SetUint(1<<31 + 7)
	case reflect.Int, reflect.Int32, reflect.Int64:
		v.SetInt(1<<30 + 1)
	case reflect.Float64:
		v.SetFloat(1.5)
	case reflect.Pointer:
		if depth > 0 {
			v.Set(reflect.New(v.Type().Elem()))
			fill(v.Elem(), depth-1)
		}
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		for i := range v.Len() {
			fill(v.Index(i), depth)
		}
	case reflect.Array:
		for i := range v.Len() {
			fill(v.Index(i), depth)
		}
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
		fill(key, depth)
		fill(value, depth)
		v.SetMapIndex(key, value)
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Field(i).CanSet() {
				fill(v.Field(i), depth)
			}
		}
	default:
		panic("golden: there is no value for a field of the kind " + v.Kind().String())
	}
}

// Full returns a value with something in every field, three pointers deep.
func Full[T any]() T {
	var v T
	fill(reflect.ValueOf(&v).Elem(), 3)
	return v
}

// Each yields a value for each field of a struct, with only that field set, and the name of the field. A test with it
// notices a field that is lost when such a value is converted to another one.
func Each[T any]() iter.Seq2[string, T] {
	return func(yield func(string, T) bool) {
		for i := range reflect.TypeFor[T]().NumField() {
			var v T
			field := reflect.ValueOf(&v).Elem().Field(i)
			fill(field, 3)
			if !yield(reflect.TypeFor[T]().Field(i).Name, v) {
				return
			}
		}
	}
}
