package dashboard

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"io/fs"
	"net/http"
	"time"
)

//go:embed static
var static embed.FS

// file is a static file, asked for anew each time and sent once.
type file struct {
	name string
	data []byte
	tag  string
}

func files() map[string]file {
	all := map[string]file{}
	entries, err := static.ReadDir("static")
	if err != nil {
		panic(err) // the go:embed pattern would not have compiled
	}
	for _, entry := range entries {
		data, err := fs.ReadFile(static, "static/"+entry.Name())
		if err != nil {
			panic(err)
		}
		sum := sha256.Sum256(data)
		all[entry.Name()] = file{entry.Name(), data, `"` + hex.EncodeToString(sum[:8]) + `"`}
	}
	return all
}

// ServeHTTP implements http.Handler.
func (f file) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Cache-Control", "no-cache")
	w.Header().Set("ETag", f.tag)
	http.ServeContent(w, r, f.name, time.Time{}, bytes.NewReader(f.data))
}
