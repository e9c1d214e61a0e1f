package gate

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"
)

// maxTries bounds how often one transaction runs when PostgreSQL asks for it.
const maxTries = 3

// retryPause is the longest pause before a retry; the actual one is random, so
// that two transactions that met don't meet again.
const retryPause = 20 * time.Millisecond

// SQLSTATEs after which the whole transaction, and nothing less, may run again.
const (
	serializationFailure = "40001"
	deadlockDetected     = "40P01"
)

// retried runs the whole transaction again after a serialization failure or a
// deadlock: both leave nothing behind.
func retried[T any](ctx context.Context, transaction func(context.Context) (T, error)) (T, error) {
	for try := 1; ; try++ {
		result, err := transaction(ctx)
		if try == maxTries || !mayRunAgain(err) {
			return result, err
		}
		select {
		case <-time.After(rand.N(retryPause)):
		case <-ctx.Done():
			return result, err
		}
	}
}

func mayRunAgain(err error) bool {
	var db *DatabaseError
	return errors.As(err, &db) && (db.SQLState == serializationFailure || db.SQLState == deadlockDetected)
}
