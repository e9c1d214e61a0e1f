// Package browser drives a real Chromium, for tests of pages.
package browser

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/chromedp/chromedp"
)

var (
	names = []string{"chromium", "chromium-browser", "google-chrome-stable", "google-chrome", "Google Chrome"}
	dirs  = []string{"/usr/sbin", "/usr/bin", "/usr/local/sbin", "/usr/local/bin", "/opt/homebrew/bin", "/Applications/Google Chrome.app/Contents/MacOS"}
)

// find returns the path of Chromium or a browser that is made of it.
func find() (string, error) {
	for _, name := range names {
		if path, err := exec.LookPath(name); err == nil {
			return path, nil
		}
		for _, dir := range dirs {
			if path, err := exec.LookPath(filepath.Join(dir, name)); err == nil {
				return path, nil
			}
		}
	}
	return "", errors.New("Chromium is not installed: looked for " + strings.Join(names, ", ") + " in PATH and " + strings.Join(dirs, ", ") +
		"; its package is chromium everywhere")
}

// Start starts a browser without a window. Tabs are made of the context by
// chromedp.NewContext; cancel ends it with all of them.
func Start(ctx context.Context) (_ context.Context, cancel func(), err error) {
	path, err := find()
	if err != nil {
		return nil, nil, err
	}
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(path),
		chromedp.Flag("disable-gpu", true), chromedp.Flag("disable-component-update", true))
	if os.Geteuid() == 0 {
		options = append(options, chromedp.NoSandbox) // it refuses to run as root with one
	}
	allocated, stop := chromedp.NewExecAllocator(ctx, options...)
	browser, end := chromedp.NewContext(allocated)
	cancel = func() {
		end()
		stop()
	}
	if err := chromedp.Do(browser); err != nil {
		cancel()
		return nil, nil, fmt.Errorf("starting %s: %w", path, err)
	}
	return browser, cancel, nil
}
