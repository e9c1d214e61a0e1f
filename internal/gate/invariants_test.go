package gate

import "github.com/fencegate/fencegate/internal/audit"

var origin = audit.Origin{Principal: "test", RequestID: "test", RemoteAddress: "test"}
