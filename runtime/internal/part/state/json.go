package state

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math"
	"math/big"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/fxamacker/cbor/v2"
)

// maxDepth bounds how deep values nest.
const maxDepth = 64

// The modes of states: integers of any size, tags and kinds of keys are kept.
var (
	decoding, decodingFault = cbor.DecOptions{
		MaxNestedLevels: maxDepth, BigIntDec: cbor.BigIntDecodePointer, MapKeyByteString: cbor.MapKeyByteStringAllowed, TimeTag: cbor.DecTagIgnored,
		DupMapKey: cbor.DupMapKeyEnforcedAPF, MaxArrayElements: 1 << 24, MaxMapPairs: 1 << 24, DefaultByteStringType: nil,
	}.DecMode()
	encoding, encodingFault = cbor.EncOptions{Sort: cbor.SortNone,
		ShortestFloat: cbor.ShortestFloatNone, BigIntConvert: cbor.BigIntConvertShortest}.EncMode()
)

// toJSON returns CBOR as JSON that keeps its types; see host.StateOutput.
func toJSON(data []byte) ([]byte, error) {
	var v any
	if err := decoding.Unmarshal(data, &v); err != nil {
		return nil, fmt.Errorf("state: %w", err)
	}
	return appendJSON(nil, v), nil
}

func appendJSON(dst []byte, v any) []byte {
	switch v := v.(type) {
	case nil:
		return append(dst, "null"...)
	case bool:
		return strconv.AppendBool(dst, v)
	case uint64:
		return strconv.AppendUint(dst, v, 10)
	case int64:
		return strconv.AppendInt(dst, v, 10)
	case *big.Int:
		return v.Append(dst, 10)
	case float64:
		return appendFloat(dst, v)
	case string:
		return appendText(dst, v)
	case []byte:
		return appendBytes(dst, v)
	case cbor.ByteString:
		return appendBytes(dst, []byte(v))
	case time.Time:
		return append(appendText(append(dst, `{"$tag":0,"value":`...), v.UTC().Format(time.RFC3339Nano)), '}')
	case cbor.Tag:
		dst = strconv.AppendUint(append(dst, `{"$tag":`...), v.Number, 10)
		return append(appendJSON(append(dst, `,"value":`...), v.Content), '}')
	case []any:
		dst = append(dst, '[')
		for i, element := range v {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = appendJSON(dst, element)
		}
		return append(dst, ']')
	case map[any]any:
		return appendMap(dst, v)
	}
	b, err := encoding.Marshal(v) // a simple value
	if err != nil {
		return append(dst, "null"...)
	}
	return appendWrapped(dst, "$cbor", base64.StdEncoding.EncodeToString(b))
}

// appendFloat appends a floating-point number, which has a fraction or an exponent.
func appendFloat(dst []byte, v float64) []byte {
	switch {
	case math.IsNaN(v):
		return appendWrapped(dst, "$float", "NaN")
	case math.IsInf(v, 1):
		return appendWrapped(dst, "$float", "Infinity")
	case math.IsInf(v, -1):
		return appendWrapped(dst, "$float", "-Infinity")
	}
	from := len(dst)
	dst = strconv.AppendFloat(dst, v, 'g', -1, 64)
	if !bytes.ContainsAny(dst[from:], ".e") {
		dst = append(dst, ".0"...)
	}
	return dst
}

func appendBytes(dst, b []byte) []byte {
	return appendWrapped(dst, "$bytes", base64.StdEncoding.EncodeToString(b))
}

func appendWrapped(dst []byte, member, text string) []byte {
	return append(appendText(append(appendText(append(dst, '{'), member), ':'), text), '}')
}

func appendText(dst []byte, s string) []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	_ = e.Encode(s) // a text always encodes
	return append(dst, bytes.TrimSuffix(b.Bytes(), []byte("\n"))...)
}

// appendMap appends a map, its members in the order of their names.
func appendMap(dst []byte, m map[any]any) []byte {
	plain := true
	type member struct{ key, value []byte }
	members := make([]member, 0, len(m))
	for k, v := range m {
		text, is := k.(string)
		plain = plain && is && !strings.HasPrefix(text, "$")
		members = append(members, member{appendJSON(nil, k), appendJSON(nil, v)})
	}
	slices.SortFunc(members, func(a, b member) int { return bytes.Compare(a.key, b.key) })
	open, between, end := "{", ":", ""
	if !plain {
		dst, open, between, end = append(dst, `{"$map":[`...), "[", ",", "]"
	} else {
		dst = append(dst, open...)
	}
	for i, m := range members {
		if i > 0 {
			dst = append(dst, ',')
		}
		if !plain {
			dst = append(dst, open...)
		}
		dst = append(append(append(append(dst, m.key...), between...), m.value...), end...)
	}
	if !plain {
		return append(dst, "]}"...)
	}
	return append(dst, '}')
}

// A fault is an error in a value of a JSON text.
type fault struct{ path, reason string }

func (f *fault) Error() string { return strings.TrimPrefix(f.path+": "+f.reason, ": ") }

// fromJSON returns the value that JSON of toJSON has. The text is valid JSON without repeated
// members. The error is a *fault.
func fromJSON(text []byte) (any, error) {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		return nil, &fault{"", "it is not JSON"}
	}
	return value(v, "", 0)
}

func value(v any, path string, depth int) (any, error) {
	if depth > maxDepth {
		return nil, &fault{path, "it nests too deep"}
	}
	switch v := v.(type) {
	case string:
		if !utf8.ValidString(v) {
			return nil, &fault{path, "it is not UTF-8"}
		}
	case json.Number:
		return number(string(v), path)
	case []any:
		for i := range v {
			var err error
			if v[i], err = value(v[i], path+"["+strconv.Itoa(i)+"]", depth+1); err != nil {
				return nil, err
			}
		}
	case map[string]any:
		for name := range v {
			if strings.HasPrefix(name, "$") {
				return wrapped(v, path, depth)
			}
		}
		m := make(map[any]any, len(v))
		for name, element := range v {
			var err error
			if m[name], err = value(element, strings.TrimPrefix(path+"."+name, "."), depth+1); err != nil {
				return nil, err
			}
		}
		return m, nil
	}
	return v, nil
}

func number(text, path string) (any, error) {
	if strings.ContainsAny(text, ".eE") {
		f, err := strconv.ParseFloat(text, 64)
		if err != nil {
			return nil, &fault{path, "the number is too large"}
		}
		return f, nil
	}
	if n, err := strconv.ParseInt(text, 10, 64); err == nil {
		return n, nil
	}
	if len(text) > 1000 {
		return nil, &fault{path, "the number is too large"}
	}
	n, ok := new(big.Int).SetString(text, 10)
	if !ok {
		return nil, &fault{path, "it is not a number"}
	}
	return n, nil
}

// wrapped reads an object with a member that begins with "$".
func wrapped(m map[string]any, path string, depth int) (any, error) {
	bad := &fault{path, `a member that begins with "$" belongs to {"$bytes":base64}, {"$float":text}, {"$tag":number,"value":...}, {"$map":[[key,value]]} or {"$cbor":base64}`}
	if tag, is := m["$tag"].(json.Number); is && len(m) == 2 {
		n, err := strconv.ParseUint(string(tag), 10, 64)
		content, there := m["value"]
		if err != nil || !there {
			return nil, bad
		}
		v, err := value(content, strings.TrimPrefix(path+".value", "."), depth+1)
		return cbor.Tag{Number: n, Content: v}, err
	}
	if len(m) != 1 {
		return nil, bad
	}
	if pairs, is := m["$map"].([]any); is {
		out := make(map[any]any, len(pairs))
		for i, p := range pairs {
			at := path + "[" + strconv.Itoa(i) + "]"
			pair, is := p.([]any)
			if !is || len(pair) != 2 {
				return nil, bad
			}
			k, err := value(pair[0], at, depth+1)
			if err != nil {
				return nil, err
			}
			switch b := k.(type) {
			case []byte:
				k = cbor.ByteString(b)
			case []any, map[any]any, cbor.Tag, *big.Int:
				return nil, &fault{at, "it cannot be a key"}
			}
			if out[k], err = value(pair[1], at, depth+1); err != nil {
				return nil, err
			}
		}
		return out, nil
	}
	for name, one := range m {
		text, is := one.(string)
		if !is {
			return nil, bad
		}
		switch name {
		case "$bytes", "$cbor":
			b, err := base64.StdEncoding.DecodeString(text)
			if err != nil {
				return nil, &fault{path, "it is not base64"}
			}
			if name == "$bytes" {
				return append([]byte{}, b...), nil
			}
			var v any
			if decoding.Unmarshal(b, &v) != nil {
				return nil, &fault{path, "it is not CBOR"}
			}
			return v, nil
		case "$float":
			switch text {
			case "NaN":
				return math.NaN(), nil
			case "Infinity":
				return math.Inf(1), nil
			case "-Infinity":
				return math.Inf(-1), nil
			}
		}
	}
	return nil, bad
}

// lost returns the path of a member or element of a value that is missing in the decoded value
// made; "" if none is. An empty one may be missing.
func lost(given, made any, path string) string {
	switch g := given.(type) {
	case map[any]any:
		m, is := made.(map[any]any)
		if !is {
			return ""
		}
		for k, v := range g {
			at := strings.TrimPrefix(fmt.Sprint(path, ".", k), ".")
			other, there := m[k]
			if !there {
				if !empty(v) {
					return at
				}
				continue
			}
			if p := lost(v, other, at); p != "" {
				return p
			}
		}
	case []any:
		m, is := made.([]any)
		if !is || len(m) > len(g) {
			return ""
		}
		for i := range g {
			at := path + "[" + strconv.Itoa(i) + "]"
			if i >= len(m) { // an array of Go drops elements beyond its length
				if !empty(g[i]) {
					return at
				}
			} else if p := lost(g[i], m[i], at); p != "" {
				return p
			}
		}
	}
	return ""
}

// named appends the paths of the members of a value that have a name, in any case of letters.
func named(places []string, v any, name, path string) []string {
	switch v := v.(type) {
	case map[any]any:
		for k, one := range v {
			text, _ := k.(string)
			at := strings.TrimPrefix(fmt.Sprint(path, ".", k), ".")
			if strings.EqualFold(text, name) {
				places = append(places, at)
			}
			places = named(places, one, name, at)
		}
	case []any:
		for i, one := range v {
			places = named(places, one, name, path+"["+strconv.Itoa(i)+"]")
		}
	}
	return places
}

func empty(v any) bool {
	switch v := v.(type) {
	case nil:
		return true
	case bool:
		return !v
	case int64:
		return v == 0
	case float64:
		return v == 0
	case string:
		return v == ""
	case []byte:
		return len(v) == 0
	case []any:
		return len(v) == 0
	case map[any]any:
		for _, one := range v {
			if !empty(one) {
				return false
			}
		}
		return true
	}
	return false
}
