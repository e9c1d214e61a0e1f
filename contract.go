// Package fencegate holds the wire contract, so that the gateway can serve the
// very file its code was generated from.
package fencegate

import _ "embed"

// Contract is openapi.yaml.
//
//go:embed openapi.yaml
var Contract []byte
