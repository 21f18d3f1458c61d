package keyspace

import "strconv"

// FormatRow prints a row for people, the logical key in it as [Format] does:
// actor/<actor id>/kv("users", 42)/data 0. Bytes that are not a row print as a
// question mark and all bytes in hexadecimal. It never panics.
func FormatRow(row []byte) string {
	r, err := ParseRow(row)
	if err != nil {
		return string(appendHex([]byte("?"), row))
	}
	return r.String()
}

// String returns the row as [FormatRow] prints it.
func (r Row) String() string {
	dst := []byte(r.Space.String())
	switch r.Type {
	case RowData, RowMetadata, RowHead, RowIdentity:
		dst = r.ID.AppendString(append(dst, '/'))
		dst = append(dst, '/')
		if r.Type == RowData || r.Type == RowMetadata {
			dst = append(dst, Format(r.Key)...)
			dst = append(dst, '/')
		}
		dst = append(dst, r.Type.String()...)
		if r.Type == RowData {
			dst = strconv.AppendInt(append(dst, ' '), int64(r.Chunk), 10)
		}
	case RowDirectory:
		dst = append(dst, '(')
		dst = appendQuoted(dst, append([]string{r.Namespace, r.ActorType}, r.ActorKey...))
		dst = append(dst, ')')
	case RowTombstone:
		dst = r.ID.AppendString(append(dst, '/'))
	case RowWake:
		w := r.Wake
		dst = strconv.AppendInt(append(dst, '('), w.Due, 10)
		dst = w.ID.AppendString(append(dst, ", "...))
		dst = append(dst, ", "...)
		dst = append(dst, w.Kind.String()...)
		dst = appendQuoted(append(dst, ", "...), []string{w.Name, w.Instance})
		dst = append(dst, ')')
	case RowOutbox:
		dst = strconv.AppendUint(append(dst, '/'), r.Seq, 10)
	case RowMeta:
		dst = strconv.AppendQuote(append(dst, '('), r.Name)
		dst = append(dst, ')')
	}
	return string(dst)
}

// appendQuoted appends the parts in quotes, with ", " between.
func appendQuoted(dst []byte, parts []string) []byte {
	for i, part := range parts {
		if i > 0 {
			dst = append(dst, ", "...)
		}
		dst = strconv.AppendQuote(dst, part)
	}
	return dst
}
