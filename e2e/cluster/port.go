package cluster

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
)

// Ports are taken from below the ranges that Linux (from 32768) and others (from 49152) give to outgoing connections.
// A client that tries to reach a killed server at a port of such a range can be given that very port for its own end:
// then it is connected to itself, and the server can not listen there any more.
const (
	minPort = 20000
	maxPort = 32000
)

// freePorts returns n different ports of 127.0.0.1 where nobody listens now.
func freePorts(n int) ([]int, error) {
	const tries = 1000
	var ports []int
	var last error
	for range tries {
		if len(ports) == n {
			return ports, nil
		}
		port := minPort + rand.IntN(maxPort-minPort)
		l, err := net.Listen("tcp", net.JoinHostPort(loopback, strconv.Itoa(port)))
		if err != nil {
			last = err
			continue
		}
		defer l.Close() // all at the end, so that no port comes twice
		ports = append(ports, port)
	}
	return nil, errors.Join(fmt.Errorf("cluster: no %d free ports on %s after %d tries", n, loopback, tries), last)
}
