package traces

// otlpSize returns about how many bytes a span has as OTLP in protobuf.
func (s *Span) otlpSize() int {
	n := 80 + len(s.Name) + len(s.Message) + attributesSize(s.Attributes)
	for i := range s.Events {
		n += 16 + len(s.Events[i].Name) + attributesSize(s.Events[i].Attributes)
	}
	for i := range s.Links {
		n += 36 + attributesSize(s.Links[i].Attributes)
	}
	return n
}

func attributesSize(list []Attribute) (n int) {
	for i := range list {
		n += 12 + len(list[i].Key) + len(list[i].Value.text)
	}
	return n
}
