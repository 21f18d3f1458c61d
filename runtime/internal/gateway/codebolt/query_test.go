package codebolt_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// An answer is the answer to a query.
type answer struct {
	Records []struct {
		Key       string
		Value     json.RawMessage
		UpdatedAt int64 `json:"updated_at"`
	}
	HasMore bool
	Cursor  *string
	Total   *int64
}

func (a *answer) keys() string {
	var keys []string
	for _, r := range a.Records {
		keys = append(keys, r.Key)
	}
	return strings.Join(keys, " ")
}

// query runs a query of a namespace with further members.
func (s *store) query(instance, members string) answer {
	s.T.Helper()
	var a answer
	text := s.want(200, "", "POST", "query", fmt.Sprintf(`{"instance":%q,"namespace":"n"%s}`, instance, members))
	must(s.T, json.Unmarshal([]byte(text), &a))
	return a
}

func TestOperators(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := open(t)
		id := s.instance("one")
		first := time.Now().UnixMilli()
		for _, r := range [][2]string{
			{"ui.b", `{"n":1,"$s":"x","tags":["red"]}`}, {"ui.a", `{"n":2,"$s":"y"}`}, {"UI.a", `null`}, {"u\u0000i",
				`"text"`}, {"é", `{"n":1.0}`}, {"u", `{"n":"1"}`},
		} {
			s.set(id, "n", r[0], r[1])
			time.Sleep(time.Millisecond)
		}
		s.set(id, "nn", "ui.c", `{"n":1}`) // of a sibling
		for _, c := range []struct{ filters, want string }{
			{`{"field":"key","operator":"=","value":"ui.a"}`, "ui.a"},
			{`{"field":"key","operator":"=","value":"ui"}`, ""},
			{`{"field":"key","operator":"!=","value":"ui.a"}`, "UI.a u u\x00i ui.b é"},
			{`{"field":"key","operator":"starts_with","value":"ui"}`, "ui.a ui.b"},
			{`{"field":"key","operator":"starts_with","value":"u\u0000"}`, "u\x00i"},
			{`{"field":"key","operator":"starts_with","value":""}`, "UI.a u u\x00i ui.a ui.b é"},
			{`{"field":"key","operator":"starts_with","value":"u"},{"field":"key","operator":"starts_with","value":"ui.b"}`, "ui.b"},
			{`{"field":"key","operator":"contains","value":"I."}`, "UI.a"},
			{`{"field":"key","operator":"in","value":["ui.b","x","é"]}`, "ui.b é"},
			{`{"field":"key","operator":"in","value":[]}`, ""},
			{`{"field":"key","operator":"exists"},{"field":"updated_at","operator":"exists"}`, "UI.a u u\x00i ui.a ui.b é"},
			{fmt.Sprintf(`{"field":"updated_at","operator":"=","value":%d}`, first), "ui.b"},
			{fmt.Sprintf(`{"field":"updated_at","operator":"!=","value":%d}`, first), "UI.a u u\x00i ui.a é"},
			{fmt.Sprintf(`{"field":"updated_at","operator":"in","value":[%d,%d]}`, first+1, first+2), "UI.a ui.a"},
			{`{"field":"value.n","operator":"=","value":1}`, "ui.b é"},
			{`{"field":"value.n","operator":"exists"}`, "u ui.a ui.b é"},
			{`{"field":"value.$s","operator":"=","value":"y"}`, "ui.a"},
			{`{"field":"value.tags[0]","operator":"starts_with","value":"r"}`, "ui.b"},
			{`{"field":"value.n","operator":"in","value":[2,"1"]},{"field":"key","operator":"starts_with","value":"u"}`, "u ui.a"},
		} {
			if got := s.query(id, `,"where":[`+c.filters+`],"total":true`); got.keys() != c.want || *got.Total != int64(len(got.Records)) {
				t.Errorf("%s: %q and %d, not %q", c.filters, got.keys(), *got.Total, c.want)
			}
		}
		if got := s.query(id,
			`,"order":{"field":"updated_at","direction":"desc"}`); got.keys() != "u é u\x00i UI.a ui.a ui.b" ||
			string(got.Records[5].Value) != `{"n":1,"$s":"x","tags":["red"]}` {
			t.Errorf("%q", got.keys())
		}
	})
}

// The pages of a query have all selected records, in its order and each once.
func TestPages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := open(t)
		id := s.instance("one")
		var keys []string
		for i := range 12 {
			keys = append(keys, fmt.Sprintf("k%02d", i))
		}
		byTime := slices.Clone(keys)
		rand.Shuffle(len(byTime), func(i, j int) { byTime[i], byTime[j] = byTime[j], byTime[i] })
		for _, key := range byTime {
			s.set(id, "n", key, fmt.Sprintf(`{"odd":%v}`, (key[2]-'0')%2 == 1))
			time.Sleep(time.Millisecond)
		}
		// Entries that are no records of Codebolt.
		s.Call("kv.commit",
			`{"mutations":[{"op":"put","key":["cb","`+id+`","n"],"value":1},{"op":"put","key":["cb","`+id+
				`","n",7],"value":1},{"op":"put","key":["cb","`+id+`","n","k03","x"],"value":1}]}`)
		for _, order := range []string{"key asc", "key desc", "updated_at asc", "updated_at desc"} {
			field, direction, _ := strings.Cut(order, " ")
			want := keys
			if field == "updated_at" {
				want = byTime
			}
			if want = slices.Clone(want); direction == "desc" {
				slices.Reverse(want)
			}
			for _, where := range []string{"", `,"where":[{"field":"value.odd","operator":"=","value":true}]`} {
				if where != "" {
					want = slices.DeleteFunc(want, func(key string) bool { return (key[2]-'0')%2 == 0 })
				}
				for _, limit := range []int{1, 2, 3, 6, 11, 12, 13, 500} {
					members := fmt.Sprintf(`,"limit":%d,"order":{"field":%q,"direction":%q}%s`, limit, field, direction, where)
					var got []string
					for cursor := ""; ; {
						page := s.query(id, members+cursor)
						got = append(got, strings.Fields(page.keys())...)
						fatalIf(t, len(page.Records) > limit || page.HasMore != (len(got) < len(want)) ||
							page.HasMore != (page.Cursor != nil),
							"%s: %d records, %v", members, len(page.Records), page.HasMore)
						if !page.HasMore {
							break
						}
						s.want(400, "does not belong", "POST", "query",
							fmt.Sprintf(`{"instance":%q,"namespace":"other","cursor":%q}`, id, *page.Cursor))
						cursor = fmt.Sprintf(`,"cursor":%q`, *page.Cursor)
					}
					errorIf(t, !slices.Equal(got, want), "%s: %v, not %v", members, got, want)
				}
			}
		}
	})
}

func TestLargeRecordsArePaged(t *testing.T) {
	s := open(t)
	id := s.instance("one")
	large := `"` + strings.Repeat("x", 1<<19) + `"`
	for i := range 9 { // one more than a page has
		s.Call("kv.commit", fmt.Sprintf(`{"mutations":[{"op":"put","key":["cb",%q,"n","k%02d"],"value":%s}]}`, id, i, large))
	}
	for _, field := range []string{"key", "updated_at"} {
		members, n, pages := `,"order":{"field":"`+field+`"}`, 0, 0
		for cursor := ""; ; pages++ {
			page := s.query(id, members+cursor)
			n += len(page.Records)
			if !page.HasMore {
				break
			}
			cursor = fmt.Sprintf(`,"cursor":%q`, *page.Cursor)
		}
		errorIf(t, n != 9 || pages != 1, "%s: %d records after %d pages", field, n, pages)
	}
}

// A filter that few records match ends a page early. Too many records cannot be in order of time.
func TestTheBudgetOfAQuery(t *testing.T) {
	s := open(t)
	id := s.instance("one")
	for i := 0; i < 20_001; i += 6_667 {
		var b strings.Builder
		for j := range 6_667 {
			fmt.Fprintf(&b, `,{"op":"put","key":["cb",%q,"n","k%05d"],"value":1}`, id, i+j)
		}
		s.Call("kv.commit", `{"mutations":[`+b.String()[1:]+`]}`)
	}
	s.want(413, "limit of 20000", "POST", "query", `{"instance":"`+id+`","namespace":"n","order":{"field":"updated_at"}}`)
	if got := s.query(id,
		`,"where":[{"field":"key","operator":"starts_with","value":"k199"}],"order":{"field":"updated_at","direction":"desc"},"limit":1,"total":true`); len(got.Records) != 1 || *got.Total != 100 {
		t.Error(got)
	}
	if got := s.query(id, `,"total":true,"limit":1`); *got.Total != 20_001 {
		t.Error(*got.Total)
	}
	if got := s.query(id,
		`,"total":true,"limit":1,"where":[{"field":"key","operator":"contains","value":"k"}]`); got.Total != nil || !got.HasMore {
		t.Error(got)
	}
	for limit, want := range map[string]int{"": 100, `,"limit":500`: 500} {
		got := s.query(id, limit)
		errorIf(t, len(got.Records) != want || !got.HasMore, "%s: %d records", limit, len(got.Records))
	}
	got := s.query(id, `,"where":[{"field":"key","operator":"contains","value":"20000"}]`)
	errorIf(t, got.keys() != "k20000" || got.HasMore, "%v", got)
}

func FuzzQuery(f *testing.F) {
	for _, seed := range []string{
		`{"instance":"I","namespace":"n","where":[{"field":"value.a","operator":"in","value":[1]}],"order":{"field":"key","direction":"desc"},"limit":5,"total":true}`,
		`{"instance":"I","namespace":"n","cursor":"eyJtIjoxfQ"}`,
		`{"instance":"I","namespace":"n","where":[{"field":"key","operator":"starts_with","value":"\u0000"}]}`,
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, body string) {
		s := open(t)
		s.Call("kv.commit", `{"mutations":[{"op":"put","key":["cb","I","n","k"],"value":{"a":1}}]}`)
		w := s.Send("POST", "query", body)
		fatalIf(t, w.Code >= 500 || !json.Valid(w.Body.Bytes()), "%d %s", w.Code, w.Body)
	})
}
