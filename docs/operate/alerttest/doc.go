// Package alerttest has the tests of the alert rules and of the Grafana dashboard in docs/operate,
// with the query engine of Prometheus. docs/operate is a module of its own, so that nothing else
// has that as a dependency.
package alerttest
