// Package api is the wire contract in Go: types and routes generated from
// openapi.yaml. Nothing here is written by hand.
package api

//go:generate go tool oapi-codegen -config config.yaml ../../openapi.yaml
