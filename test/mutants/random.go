package main

import (
	"cmp"
	"context"
	"fmt"
	"hash/fnv"
	"io"
	"math/rand/v2"
	"path"
	"slices"
	"strings"
	"sync"
	"time"
)

// packageTimeout bounds the tests of a package with a change made at random. A test that hangs has noticed it.
const packageTimeout = 10 * time.Minute

// catalogue is the test that compares the text of each SQL function. It notices every change, which says nothing.
const catalogue = "^TestTheCatalogueThatDoctorComparesIsThatOfTheSchema$"

// random makes so many changes to the product, one at a time, and prints what became of each. Changes that do not
// build, or whose SQL is invalid, do not count. It returns an error if no test notices some.
func (l lab) random(ctx context.Context, number int, seed uint64, only string, out io.Writer) error {
	list, err := changes(l.product)
	if err != nil {
		return err
	}
	chosen := list[:0]
	for _, c := range list {
		if only == "" || path.Dir(c.file) == only || strings.HasPrefix(c.String(), only+":") {
			chosen = append(chosen, c)
		}
	}
	slices.SortStableFunc(chosen, func(a, b change) int { return cmp.Compare(a.lot(seed), b.lot(seed)) })
	fmt.Fprintf(out, "%d changes could be made; testing %d of them, chosen by seed %d\n", len(chosen), number, seed)
	var workers sync.WaitGroup
	d := draw{left: chosen, number: number}
	for range atOnce {
		workers.Go(func() {
			for c, more := d.next(ctx); more; c, more = d.next(ctx) {
				began := time.Now()
				v, by := l.notice(ctx, c)
				d.tell(c, v)
				fmt.Fprintf(out, "%-9s %4.0f s  %-16s  %s\n", v, time.Since(began).Seconds(), by, c)
			}
		})
	}
	workers.Wait()
	if ctx.Err() != nil || len(d.survivors) == 0 {
		return ctx.Err()
	}
	fmt.Fprintf(out, "\n%d of %d changes that no test of their packages notices:\n", len(d.survivors), d.counted)
	for _, c := range d.survivors {
		fmt.Fprintf(out, "%s\n", c)
	}
	return fmt.Errorf("%d of %d changes survived: write a test for each, take its code away, or say why it means nothing",
		len(d.survivors), d.counted)
}

// lot decides when a change's turn is. It depends on the text around the change only, so that a seed makes much the
// same changes after others have been answered by tests or by less code.
func (c change) lot(seed uint64) uint64 {
	const around = 80
	hash := fnv.New64a()
	fmt.Fprint(hash, c.file, c.text[max(0, c.at-around):min(len(c.text), c.end+around)], c.was, c.now)
	return rand.New(rand.NewPCG(seed, hash.Sum64())).Uint64()
}

// draw hands out changes until so many of them count.
type draw struct {
	mu              sync.Mutex
	left, survivors []change
	number, counted int // counted are those whose tests have begun
}

func (d *draw) next(ctx context.Context) (change, bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.counted >= d.number || len(d.left) == 0 || ctx.Err() != nil {
		return change{}, false
	}
	c := d.left[0]
	d.left, d.counted = d.left[1:], d.counted+1
	return c, true
}

func (d *draw) tell(c change, v verdict) {
	d.mu.Lock()
	defer d.mu.Unlock()
	switch v {
	case broken:
		d.counted--
	case survived:
		d.survivors = append(d.survivors, c)
	}
}

// notice returns what becomes of a change, and the package whose tests say so.
func (l lab) notice(ctx context.Context, c change) (v verdict, by string) {
	for _, by = range c.packages {
		output, err := l.goTest(ctx, c.mutated(), packageTimeout, by, "-v", "-skip", catalogue)
		switch {
		case ctx.Err() != nil:
			return broken, by
		case err == nil:
		case isInvalid(output):
			return broken, by
		case timedOut(output):
			return hung, by
		default:
			return red, by
		}
	}
	return survived, by
}
