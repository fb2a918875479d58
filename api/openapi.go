package api

import _ "embed"

// The contract comes first: both generated files follow from openapi.yaml, and
// `make check` fails when they do not.
//
//go:generate go tool -modfile=../tools/go.mod oapi-codegen -config oapi-codegen.yaml openapi.yaml
//go:generate go tool -modfile=../tools/go.mod oapi-codegen -config ../internal/web/oapi-codegen.yaml openapi.yaml

//go:embed openapi.yaml
var openAPI string

// OpenAPI returns the contract as the server serves it on /openapi.yaml.
func OpenAPI() string { return openAPI }
