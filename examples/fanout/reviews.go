package main

import (
	"k8s.io/client-go/rest"

	"github.com/typedinformer/informer"
	"github.com/typedinformer/informer/review"
)

// reviewQPS bounds the load on the API server from clients with ever new tokens.
const reviewQPS, reviewBurst = 50, 100

// newReviewer returns a reviewer with a rate limit of its own, for tokens of the audiences; nil means those of the API
// server.
func newReviewer(config *rest.Config, audiences []string) (*review.Reviewer, error) {
	config = rest.CopyConfig(config)
	config.QPS, config.Burst = reviewQPS, reviewBurst
	client, err := informer.NewClient(config)
	if err != nil {
		return nil, err
	}
	return review.New(client, review.Config{Audiences: audiences}), nil
}
