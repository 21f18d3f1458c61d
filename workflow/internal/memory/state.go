package memory

import (
	"reflect"
	"time"
)

// A snapshot is a deep copy of the target of a pointer, for transactions that are undone.
type snapshot struct{ of, copy reflect.Value }

// take copies the target of p, a pointer that is not nil, and all that it refers to. Channels and
// functions are shared.
func take(p any) *snapshot {
	v := reflect.ValueOf(p)
	return &snapshot{v, clone(v, map[visit]reflect.Value{})}
}

// restore sets the target to the copy.
func (s *snapshot) restore() { s.of.Elem().Set(s.copy.Elem()) }

// A visit is a pointer, map or slice that has been copied. It is copied once, even if several paths
// lead to it.
type visit struct {
	p uintptr
	n int
	t reflect.Type
}

// clone returns a deep copy of v.
func clone(v reflect.Value, seen map[visit]reflect.Value) reflect.Value {
	switch v.Kind() {
	case reflect.Pointer, reflect.Map, reflect.Slice:
		if v.IsNil() || v.Type() == reflect.TypeFor[*time.Location]() { // these are compared by address

			return v
		}
		at := visit{p: v.Pointer(), t: v.Type()}
		if v.Kind() == reflect.Slice {
			at.n = v.Len()
		}
		if c, ok := seen[at]; ok {
			return c
		}
		return cloneShared(v, at, seen)
	case reflect.Interface:
		if v.IsNil() {
			return v
		}
		c := reflect.New(v.Type()).Elem()
		c.Set(clone(v.Elem(), seen))
		return c
	case reflect.Struct:
		c := reflect.New(v.Type()).Elem()
		c.Set(v)
		for i := range c.NumField() {
			open(c.Field(i)).Set(clone(open(c.Field(i)), seen))
		}
		return c
	case reflect.Array:
		c := reflect.New(v.Type()).Elem()
		for i := range v.Len() {
			c.Index(i).Set(clone(v.Index(i), seen))
		}
		return c
	}
	return v
}

func cloneShared(v reflect.Value, at visit, seen map[visit]reflect.Value) reflect.Value {
	var c reflect.Value
	switch v.Kind() {
	case reflect.Pointer:
		c = reflect.New(v.Type().Elem())
		seen[at] = c
		c.Elem().Set(clone(v.Elem(), seen))
	case reflect.Map:
		c = reflect.MakeMapWithSize(v.Type(), v.Len())
		seen[at] = c
		for it := v.MapRange(); it.Next(); {
			c.SetMapIndex(clone(it.Key(), seen), clone(it.Value(), seen))
		}
	default:
		c = reflect.MakeSlice(v.Type(), v.Len(), v.Len())
		seen[at] = c
		for i := range v.Len() {
			c.Index(i).Set(clone(v.Index(i), seen))
		}
	}
	return c
}

// open returns an addressable field that can be read and set even if it is not exported.
func open(f reflect.Value) reflect.Value {
	return reflect.NewAt(f.Type(), f.Addr().UnsafePointer()).Elem()
}
