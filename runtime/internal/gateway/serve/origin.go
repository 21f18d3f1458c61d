package serve

import (
	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/actor/host/audit"
)

// Identify adds an origin to the context of the request, for the audit log. A request of an
// operator needs one before Authorize.
func (x *Exchange) Identify() {
	o := &audit.Origin{Channel: "http", Remote: x.R.RemoteAddr}
	if values := x.R.Header[audit.Header]; len(values) > 1 {
		x.reasonFault = host.Errorf(host.InvalidArgument, "there is more than one %s header",
			audit.Header).With("field", audit.Header)
	} else if len(values) == 1 {
		o.Reason, x.reasonFault = audit.ParseReason(values[0])
	}
	x.origin, x.R = o, x.R.WithContext(audit.With(x.R.Context(), o))
}

// From returns r with an origin, whose name the hook may set.
func (r AuthRequest) From(o *audit.Origin) AuthRequest {
	r.origin = o
	return r
}

// SetPrincipal sets the name of the caller: a user or a program, in any form that operators
// understand. The audit log shows the name with the request.
func (r AuthRequest) SetPrincipal(name string) {
	if r.origin != nil {
		r.origin.Principal = name
	}
}
