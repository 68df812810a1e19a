package cluster

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
)

// Ports are below the ranges that Linux (from 32768) and others (from 49152) use for outgoing connections. A client
// that connects to a killed server's port in such a range can get that same port for its own end. It is then connected
// to itself, and the server can no longer listen there.
const (
	minPort = 20000
	maxPort = 32000
)

// freePorts returns n different ports of 127.0.0.1 on which no process listens.
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
		defer l.Close() // close all at the end, so that no port repeats
		ports = append(ports, port)
	}
	return nil, errors.Join(fmt.Errorf("cluster: no %d free ports on %s after %d tries", n, loopback, tries), last)
}
