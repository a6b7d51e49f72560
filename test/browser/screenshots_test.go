package browser

import (
	"bytes"
	"cmp"
	"image"
	"image/color"
	"image/draw"
	"image/png"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"
)

const (
	// maxScreenshot is the maximum size of a documentation picture in bytes.
	maxScreenshot = 150_000
	// minColours is more colours than an empty page has.
	minColours = 16
)

// quick is a time to start with one digit before the point.
var quick = regexp.MustCompile(`Time to start\s+\d\.\d ms`)

func TestThePicturesOfTheDocumentationCanBeTaken(t *testing.T) {
	t.Parallel()
	all := places(t)
	for name, shot := range map[string]struct {
		path  string
		looks []step
	}{
		"overview":       {all["overview"].path, nil},
		"overview-dark":  {all["overview"].path, []step{dark}},
		"overview-phone": {all["overview"].path, []step{phone}},
		"workspaces":     {"/ui/workspaces?sort=running", nil},
		"workspace":      {"/ui/workspaces/" + workspaceID(t, "Acme Oslo") + "?period=24h", nil},
		"item":           {all["failed item"].path, nil},
		"dead-letters":   {all["dead letters"].path, nil},
		"items":          {"/ui/items", []step{wide}},
		"items-phone":    {"/ui/items", []step{phone}},
		"limits":         {"/ui/limits", []step{wide}},
		"limits-phone":   {"/ui/limits", []step{phone}},
		"settings":       {"/ui/settings", []step{wide}},
		"settings-phone": {"/ui/settings", []step{phone}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			origin, user, ofDemo := shared.full.origin, "", *demo != "" && strings.HasPrefix(name, "overview")
			if ofDemo {
				link, err := url.Parse(*demo)
				require.NoError(t, err)
				origin, user = "http://"+link.Host, link.User.String()
			}
			p := openAt(t, origin, user, shot.path, shot.looks...)
			if ofDemo {
				await(t, func() bool { return quick.MatchString(p.text("#totals")) }, "starts take less than 10 ms")
			}
			await(t, func() bool { return !strings.Contains(p.text("main"), "NOT LISTENING") },
				"a heartbeat reports that the replica listens")
			shown, err := chromedp.Run(p.ctx, chromedp.CaptureScreenshot())
			require.NoError(t, err)
			decoded, err := png.Decode(bytes.NewReader(shown))
			require.NoError(t, err)
			picture := quantise(decoded)
			require.Greater(t, len(picture.Palette), minColours, "the picture is not empty")
			var out bytes.Buffer
			require.NoError(t, (&png.Encoder{CompressionLevel: png.BestCompression}).Encode(&out, picture))
			require.Less(t, out.Len(), maxScreenshot)
			if *screenshots != "" {
				require.NoError(t, os.WriteFile(filepath.Join(*screenshots, name+".png"), out.Bytes(), 0o644))
			}
		})
	}
}

// quantise reduces a picture to its 256 most frequent colours and maps every other point to the nearest of them. Text
// on flat colours has few more.
func quantise(from image.Image) *image.Paletted {
	count := map[color.RGBA]int{}
	for y := from.Bounds().Min.Y; y < from.Bounds().Max.Y; y++ {
		for x := from.Bounds().Min.X; x < from.Bounds().Max.X; x++ {
			count[color.RGBAModel.Convert(from.At(x, y)).(color.RGBA)]++
		}
	}
	var palette color.Palette
	for _, c := range slices.SortedFunc(maps.Keys(count),
		func(a, b color.RGBA) int { return cmp.Compare(count[b], count[a]) }) {
		if len(palette) < 256 {
			palette = append(palette, c)
		}
	}
	to := image.NewPaletted(from.Bounds(), palette)
	draw.Draw(to, to.Bounds(), from, from.Bounds().Min, draw.Src)
	return to
}
