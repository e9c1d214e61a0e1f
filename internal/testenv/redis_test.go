package testenv

import (
	"testing"

	"github.com/redis/go-redis/v9"
)

func client(t *testing.T, url string) *redis.Client {
	t.Helper()
	options, err := redis.ParseURL(url)
	if err != nil {
		t.Fatal(err)
	}
	c := redis.NewClient(options)
	t.Cleanup(func() { c.Close() })
	return c
}

func TestRedisPrefixes(t *testing.T) {
	url, first := Redis(t)
	again, second := Redis(t)
	if url != again || first == second {
		t.Errorf("%s %s, %s %s", url, first, again, second)
	}
	if err := client(t, url).Set(t.Context(), first+"k", "v", 0).Err(); err != nil {
		t.Error(err)
	}
}

func TestOwnRedis(t *testing.T) {
	shared, _ := Redis(t)
	own := OwnRedis(t)
	if own.URL() == shared {
		t.Error("the server is shared")
	}
	if err := client(t, own.URL()).FlushAll(t.Context()).Err(); err != nil {
		t.Error(err)
	}
}
