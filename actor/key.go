package actor

import (
	"errors"
	"fmt"
	"reflect"

	"github.com/cairn-run/cairn/keyspace/tuple"
)

// A keyForm is how a map's keys are packed.
type keyForm uint8

const (
	keyString keyForm = iota + 1
	keyInt
	keyUint
	keyFloat32
	keyFloat64
	keyBool
	keyBytes
	keyUUID
	keyTuple
)

// keyFormOf returns the form for a key type, or 0 and the fault of the type.
func keyFormOf(t reflect.Type) (keyForm, string) {
	if t == reflect.TypeFor[tuple.Tuple]() {
		return keyTuple, ""
	}
	switch t.Kind() {
	case reflect.String:
		return keyString, ""
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return keyInt, ""
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return keyUint, ""
	case reflect.Float32:
		return keyFloat32, ""
	case reflect.Float64:
		return keyFloat64, ""
	case reflect.Bool:
		return keyBool, ""
	case reflect.Slice:
		if t.Elem().Kind() == reflect.Uint8 {
			return keyBytes, ""
		}
	case reflect.Array:
		if t.Elem().Kind() == reflect.Uint8 && t.Len() == len(tuple.UUID{}) {
			return keyUUID, ""
		}
	}
	return 0, fmt.Sprintf("a key cannot be a %s: use a string, an integer, a float, a bool, []byte, [16]byte or, "+
		"for keys of several parts, tuple.Tuple", t.Kind())
}

// prefixes reports whether keys of the form have prefixes.
func (f keyForm) prefixes() bool { return f == keyString || f == keyBytes || f == keyTuple }

var errKeyType = errors.New("the map's key type cannot be a key")

// appendKey appends the packed form of the key that k points to; f is the form of its type. Common
// types need no reflection.
func appendKey(dst []byte, f keyForm, k any) ([]byte, error) {
	switch k := k.(type) {
	case *string:
		return tuple.AppendString(dst, *k), nil
	case *int:
		return tuple.AppendInt(dst, int64(*k)), nil
	case *int64:
		return tuple.AppendInt(dst, *k), nil
	case *uint64:
		return tuple.AppendUint(dst, *k), nil
	case *[]byte:
		return tuple.AppendBytes(dst, *k), nil
	case *tuple.UUID:
		return tuple.AppendUUID(dst, *k), nil
	case *[16]byte:
		return tuple.AppendUUID(dst, *k), nil
	case *tuple.Tuple:
		return packKey(dst, *k)
	}
	v := reflect.ValueOf(k).Elem()
	switch f {
	case keyString:
		return tuple.AppendString(dst, v.String()), nil
	case keyInt:
		return tuple.AppendInt(dst, v.Int()), nil
	case keyUint:
		return tuple.AppendUint(dst, v.Uint()), nil
	case keyFloat32:
		return tuple.AppendFloat32(dst, float32(v.Float())), nil
	case keyFloat64:
		return tuple.AppendFloat64(dst, v.Float()), nil
	case keyBool:
		return tuple.AppendBool(dst, v.Bool()), nil
	case keyBytes:
		return tuple.AppendBytes(dst, v.Bytes()), nil
	case keyUUID:
		return tuple.AppendUUID(dst, tuple.UUID(v.Bytes())), nil
	}
	return nil, errKeyType
}

// decodeKey decodes packed, the whole key after the map's name, into the key that k points to; f is
// the form of its type.
func decodeKey(packed []byte, f keyForm, k any) error {
	d := tuple.NewDecoder(packed)
	v := reflect.ValueOf(k).Elem()
	switch f {
	case keyTuple:
		t, err := tuple.Unpack(packed)
		if err != nil {
			return err
		}
		v.Set(reflect.ValueOf(t))
		return nil
	case keyString:
		s, err := d.String()
		if err != nil {
			return err
		}
		v.SetString(s)
	case keyInt:
		n, err := d.Int()
		if err != nil {
			return err
		}
		if v.OverflowInt(n) {
			return fmt.Errorf("the key %d does not fit %d bits", n, v.Type().Bits())
		}
		v.SetInt(n)
	case keyUint:
		n, err := d.Uint()
		if err != nil {
			return err
		}
		if v.OverflowUint(n) {
			return fmt.Errorf("the key %d does not fit %d bits", n, v.Type().Bits())
		}
		v.SetUint(n)
	case keyFloat32:
		n, err := d.Float32()
		if err != nil {
			return err
		}
		v.SetFloat(float64(n))
	case keyFloat64:
		n, err := d.Float64()
		if err != nil {
			return err
		}
		v.SetFloat(n)
	case keyBool:
		b, err := d.Bool()
		if err != nil {
			return err
		}
		v.SetBool(b)
	case keyBytes:
		b, err := d.Bytes()
		if err != nil {
			return err
		}
		v.SetBytes(append([]byte{}, b...))
	case keyUUID:
		u, err := d.UUID()
		if err != nil {
			return err
		}
		for i, b := range u {
			v.Index(i).SetUint(uint64(b))
		}
	default:
		return errKeyType
	}
	return d.End()
}
