package main

import (
	"testing"

	"github.com/fencegate/fencegate/internal/config"
)

func TestNothingIsCountedThatNobodyCanAskFor(t *testing.T) {
	t.Parallel()
	for admin, counted := range map[string]bool{config.AdminOff: false, "127.0.0.1:9090": true} {
		observer, observe := new(house).observers(&config.Config{Admin: admin})
		if (observer != nil) != counted || (observe != nil) != counted {
			t.Errorf("under admin_listen: %s somebody is told: %t, %t", admin, observer != nil, observe != nil)
		}
	}
}
