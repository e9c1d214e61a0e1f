package main

import (
	"bytes"
	"context"
	"fmt"
	"image/png"
	"os"
	"path/filepath"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"

	"github.com/fencegate/fencegate/internal/testenv/browser"
)

// shot is one picture.
type shot struct {
	name, page string
	dark       bool
	ready      string // what is there once the page is as it should be
}

// photograph writes the pictures of all pages.
func photograph(ctx context.Context, dashboard, record, dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	ctx, cancel, err := browser.Start(ctx)
	if err != nil {
		return err
	}
	defer cancel()
	ctx, cancelled := context.WithTimeout(ctx, 2*time.Minute)
	defer cancelled()
	for _, s := range []shot{
		{name: "tables", page: "tables", ready: "#past .finding, #past .note"},
		{name: "overview", ready: "#refusals table"},
		{name: "overview-dark", ready: "#refusals table", dark: true},
		{name: "locks", page: "locks", ready: "#leases table"},
		{name: "lock", page: "lock?key=inventory:SKU-1", ready: "#history table"},
		{name: "refusals", page: "refusals?span=15m", ready: "#refused table"},
		{name: "refusal", page: "refusal?id=" + record, ready: "svg.story"},
		{name: "settings", page: "settings", ready: "pre.config"},
	} {
		if err := s.take(ctx, dashboard, dir); err != nil {
			return fmt.Errorf("photographing %s: %w", s.name, err)
		}
	}
	return nil
}

func (s shot) take(ctx context.Context, dashboard, dir string) error {
	scheme := "light"
	if s.dark {
		scheme = "dark"
	}
	_, err := chromedp.Call(ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
		Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}},
	})
	if err != nil {
		return err
	}
	err = chromedp.Do(ctx,
		chromedp.EmulateViewport(1280, 860),
		chromedp.Navigate(dashboard+s.page),
		chromedp.WaitVisible(chromedp.CSS(s.ready)),
	)
	if err != nil {
		return err
	}
	picture, err := chromedp.Run(ctx, chromedp.FullScreenshot(100)) // 100: PNG
	if err != nil {
		return err
	}
	return save(picture, filepath.Join(dir, s.name+".png"))
}

// save packs the picture better than the browser does.
func save(picture []byte, path string) error {
	decoded, err := png.Decode(bytes.NewReader(picture))
	if err != nil {
		return err
	}
	var packed bytes.Buffer
	if err := (&png.Encoder{CompressionLevel: png.BestCompression}).Encode(&packed, decoded); err != nil {
		return err
	}
	return os.WriteFile(path, packed.Bytes(), 0o644)
}
