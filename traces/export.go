package traces
type Exporter struct{}
type Resource struct{}
func (e *Exporter) Export(r *Resource, s *Span) {}
