package memory

import (
	"reflect"
	"time"
)

// A snapshot is a copy of what a pointer points to, for transactions that are undone.
type snapshot struct{ of, copy reflect.Value }

// take copies what p, a pointer that is not nil, points to, with all that it leads to. Channels and
// functions are shared.
func take(p any) *snapshot {
	v := reflect.ValueOf(p)
	return &snapshot{v, clone(v, map[visit]reflect.Value{})}
}

// restore makes it again as it was.
func (s *snapshot) restore() { s.of.Elem().Set(s.copy.Elem()) }

// A visit is a pointer, map or slice that has been copied: what is reached in two ways is copied
// once.
type visit struct {
	p uintptr
	n int
	t reflect.Type
}

// clone returns a deep copy of v.
func clone(v reflect.Value, seen map[visit]reflect.Value) reflect.Value {
	switch v.Kind() {
	case reflect.Pointer, reflect.Map, reflect.Slice:
		if v.IsNil() || v.Type() == reflect.TypeFor[*time.Location]() { // those are known by their address

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

// open returns an addressable field so that it can be read and set also if it is not exported.
func open(f reflect.Value) reflect.Value {
	return reflect.NewAt(f.Type(), f.Addr().UnsafePointer()).Elem()
}
