package devstack

import (
	"errors"
	"fmt"
	"net"
)

// FreePorts returns n ports of 127.0.0.1 that nobody listened on a moment ago, all
// different, for servers that must know each other's before they start.
func FreePorts(n int) ([]int, error) {
	var ports []int
	var errs []error
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			errs = append(errs, fmt.Errorf("finding a free port: %w", err))
			break
		}
		defer l.Close() // all at the end: else one could come twice
		ports = append(ports, l.Addr().(*net.TCPAddr).Port)
	}
	return ports, errors.Join(errs...)
}
