// Package rate limits how often something may happen, with a token bucket.
//
// The bucket holds at most Burst tokens and gains PerSecond tokens each second.
// An event takes one token; without a token it has to wait.
package rate

import (
	"sync"
	"time"
)

// Bucket is safe for use from several goroutines.
type Bucket struct {
	PerSecond float64
	Burst     float64

	mu     sync.Mutex
	tokens float64
	last   time.Time
}

// New returns a bucket that starts full.
func New(perSecond, burst float64, now time.Time) *Bucket {
	return &Bucket{PerSecond: perSecond, Burst: burst, tokens: burst, last: now}
}

// Allow reports whether one event may happen at the given time, and takes its token if so.
func (b *Bucket) Allow(now time.Time) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	elapsed := now.Sub(b.last).Seconds()
	if elapsed > 0 {
		b.tokens = min(b.Burst, b.tokens+elapsed*b.PerSecond)
		b.last = now
	}
	if b.tokens < 1 {
		return false
	}
	b.tokens--
	return true
}

// Wait returns how long to wait until the next event is allowed.
func (b *Bucket) Wait(now time.Time) time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	missing := 1 - b.tokens - now.Sub(b.last).Seconds()*b.PerSecond
	if missing <= 0 {
		return 0
	}
	return time.Duration(missing / b.PerSecond * float64(time.Second))
}
