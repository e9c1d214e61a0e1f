package dashboard_test

import (
	"os"
	"testing"

	"github.com/fencegate/fencegate/internal/testenv"
)

func TestMain(m *testing.M) {
	code := m.Run()
	endBrowser()
	testenv.Stop()
	os.Exit(code)
}
