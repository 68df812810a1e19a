package main

import (
	"bytes"
	"image/color"
	"slices"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"

	"github.com/typedinformer/informer/bench/internal/canned"
	"github.com/typedinformer/informer/bench/internal/measure"
)

// chart is a chart of some figures: a bar for each peer, or lines by size.
type chart struct {
	series, name, title string
	plot                *plot.Plot
	legend              plot.Legend
	height              vg.Length
	err                 error
}

const chartWidth, legendWidth = 24 * vg.Centimeter, 6 * vg.Centimeter

func (c chart) svg() ([]byte, error) {
	if c.err != nil {
		return nil, c.err
	}
	canvas := vgsvg.New(chartWidth, c.height)
	whole := draw.New(canvas)
	whole.SetColor(color.White) // the page may be dark
	whole.Fill(whole.Rectangle.Path())
	c.plot.Draw(draw.Crop(whole, 0, -legendWidth, 0, 0))
	c.legend.Draw(draw.Crop(whole, chartWidth-legendWidth, 0, 0, -vg.Centimeter))
	var b bytes.Buffer
	_, err := canvas.WriteTo(&b)
	return b.Bytes(), err
}

var (
	formatColors = []color.Color{color.RGBA{0x4c, 0x78, 0xa8, 0xff}, color.RGBA{0xf5, 0x85, 0x18, 0xff}}
	peerColors   = map[string]color.Color{
		clientGo:    color.RGBA{0xe4, 0x57, 0x56, 0xff},
		own:         color.RGBA{0x4c, 0x78, 0xa8, 0xff},
		ownSeparate: color.RGBA{0x54, 0xa2, 0x4b, 0xff},
	}
)

// charts are the charts of figures with more than one value.
func (r *results) charts() (charts []chart) {
	for _, c := range []struct {
		name, title, unit, figure string
		scale                     float64
	}{
		{"sync", "Initial sync", "s", syncTime, 1},
		{"sync-cpu", "Processor time of the initial sync", "s", syncCPU, 1},
		{"peak", "Peak of resident memory in the initial sync", "MB", peakMemory, 1e-6},
		{"heap", "Live heap a pod", "kB", liveHeap, 1e-3},
		{"events", "Events a second to one handler", "", eventRate, 1},
		{"latency-p50", "From write to handler, median", "ms", latency50, 1e3},
		{"latency-p99", "From write to handler, 99th percentile", "ms", latency99, 1e3},
		{"relist", "Processor time of a relist that finds nothing changed", "s", relistCPU, 1},
	} {
		if chart, ok := r.bars(c.name, c.title, c.unit, c.figure, c.scale); ok {
			charts = append(charts, chart)
		}
	}
	for _, s := range []struct {
		series, quantity string
		n                func(processRun) float64
	}{
		{sizes, "pods", func(p processRun) float64 { return float64(p.Pods) }},
		{handlersN, "handlers", func(p processRun) float64 { return float64(p.Handlers) }},
		{informerN, "informers", func(p processRun) float64 { return float64(p.Informers) }},
	} {
		for _, c := range []struct {
			name, title, unit, figure string
			scale                     func(processRun) float64
		}{
			{"sync", "Initial sync", "s", syncTime, func(processRun) float64 { return 1 }},
			{"sync-cpu", "Processor time of the initial sync", "s", syncCPU, func(processRun) float64 { return 1 }},
			{"peak", "Peak of resident memory in the initial sync", "MB", peakMemory, func(processRun) float64 { return 1e-6 }},
			{"heap", "Live heap", "MB", liveHeap, func(p processRun) float64 { return 1e-6 * float64(p.Pods) }},
			{"events", "Changes a second, each told to all handlers", "", eventRate, func(processRun) float64 { return 1 }},
		} {
			if chart, ok := r.lines(s.series, s.quantity+"-"+c.name, c.title+", by number of "+s.quantity, s.quantity, c.unit, c.figure, s.n,
				c.scale); ok {
				charts = append(charts, chart)
			}
		}
	}
	return charts
}

// newChart returns an empty chart with its legend beside it.
func newChart(series, name, title string, height vg.Length) chart {
	c := chart{series: series, name: name, title: title, plot: plot.New(), legend: plot.NewLegend(), height: height}
	c.plot.Title.Text = title
	c.legend.Top, c.legend.Left, c.legend.Padding, c.legend.XOffs = true, true, vg.Millimeter, 3*vg.Millimeter
	return c
}

// bars has a bar for each peer and format.
func (r *results) bars(name, title, unit, figure string, scale float64) (chart, bool) {
	var names []string
	for i := len(peers) - 1; i >= 0; i-- { // the first one on top
		if slices.ContainsFunc(r.Options.Formats,
			func(format string) bool { return len(r.values(tables, peers[i].name, format, figure)) > 0 }) {
			names = append(names, peers[i].name)
		}
	}
	c := newChart(tables, name, title, vg.Length(len(names)+2)*vg.Centimeter)
	p := c.plot
	p.X.Label.Text, p.X.Min = unit, 0
	width := 0.8 * vg.Centimeter / vg.Length(len(r.Options.Formats))
	for i, format := range r.Options.Formats {
		values := make(plotter.Values, len(names))
		for n, name := range names {
			values[n] = scale * measure.Median(r.values(tables, name, format, figure))
		}
		if len(names) == 0 {
			return c, false
		}
		bars, err := plotter.NewBarChart(values, width)
		if err != nil {
			c.err = err
			return c, true
		}
		bars.Horizontal, bars.Color, bars.LineStyle.Width = true, formatColors[i%len(formatColors)], 0
		bars.Offset = width * (vg.Length(len(r.Options.Formats)-1)/2 - vg.Length(i))
		p.Add(bars)
		c.legend.Add(canned.Name(format), bars)
	}
	p.NominalY(names...)
	return c, true
}

// lines has a line for each peer and format, on logarithmic axes: proportional growth is a straight line.
func (r *results) lines(series, name, title, quantity, unit, figure string, n, scale func(processRun) float64) (chart, bool) {
	c := newChart(series, name, title, 11*vg.Centimeter)
	p := c.plot
	p.X.Label.Text, p.Y.Label.Text = quantity, unit
	p.X.Scale, p.Y.Scale = plot.LogScale{}, plot.LogScale{}
	p.X.Tick.Marker, p.Y.Tick.Marker = plot.LogTicks{Prec: -1}, plot.LogTicks{Prec: -1}
	p.Add(plotter.NewGrid())
	some := false
	for _, peer := range peers {
		for i, format := range r.Options.Formats {
			var points plotter.XYs
			for _, run := range r.Runs {
				if run.Series != series || run.Peer != peer.name || run.Format != format ||
					slices.ContainsFunc(points, func(xy plotter.XY) bool { return xy.X == n(run) }) {
					continue
				}
				if y := scale(run) * measure.Median(r.valuesLike(run, figure)); y > 0 {
					points = append(points, plotter.XY{X: n(run), Y: y})
				}
			}
			if len(points) < 2 {
				continue
			}
			line, dots, err := plotter.NewLinePoints(points)
			if err != nil {
				c.err = err
				return c, true
			}
			line.Color, line.Width = peerColors[peer.name], vg.Points(1.5)
			dots.Color, dots.Shape = peerColors[peer.name], draw.CircleGlyph{}
			if i > 0 {
				line.Dashes = []vg.Length{vg.Points(5), vg.Points(3)}
			}
			p.Add(line, dots)
			some = true
			c.legend.Add(peer.name+", "+canned.Name(format), line)
		}
	}
	p.Y.Min, p.Y.Max = p.Y.Min/1.5, p.Y.Max*1.5 // a logarithmic axis must not be a point
	return c, some
}
