package git

import (
	"bytes"
	"math"
	"slices"
)

// What is merged is bounded, and no clock bounds it: two who merge come to the same.
const (
	MaxMerged  = 1 << 20   // bytes of a file
	maxAligned = 8_000_000 // steps for each of two comparisons, of two bytes: lines times lines that differ
)

// MergeLines merges what two sides made of a text, by lines. It isn't ok where the sides
// changed the same lines otherwise, or lines beside one another, and for what has no lines
// or is too large to compare. Lines are compared and kept byte for byte, with their ends.
//
// The outcome rests on no way of comparing that a program chooses. A line is kept by a side
// if each shortest way from the text to that side keeps it, and has it at the same place;
// lines that both sides keep cut all three texts into pieces, and of each piece one side at
// most may have made something else, or both the same. git merge-file chooses one shortest
// way for each side. So its pieces are these or smaller ones, and where it merges too, it
// comes to the same.
func MergeLines(base, ours, theirs []byte) (merged []byte, ok bool) {
	kinds := map[string]int32{}
	var texts [3][][]byte
	var ids [3][]int32
	for i, data := range [][]byte{base, ours, theirs} {
		if len(data) > MaxMerged || bytes.IndexByte(data, 0) >= 0 {
			return nil, false
		}
		for line := range bytes.Lines(data) {
			id, known := kinds[string(line)]
			if !known {
				id = int32(len(kinds)) // a text has MaxMerged lines at most
				kinds[string(line)] = id
			}
			texts[i], ids[i] = append(texts[i], line), append(ids[i], id)
		}
	}
	ourPlaces, ok := keptLines(ids[0], ids[1])
	if !ok {
		return nil, false
	}
	theirPlaces, ok := keptLines(ids[0], ids[2])
	if !ok {
		return nil, false
	}
	return mergePieces(texts, ids, ourPlaces, theirPlaces)
}

// mergePieces takes each piece between lines that both sides keep from the side that
// changed it.
func mergePieces(texts [3][][]byte, ids [3][]int32, ours, theirs []int) (merged []byte, ok bool) {
	merged = []byte{}
	var from [3]int
	for at := 0; at <= len(ids[0]); at++ {
		to := [3]int{at, len(ids[1]), len(ids[2])}
		if at < len(ids[0]) {
			if to[1], to[2] = ours[at], theirs[at]; to[1] < 0 || to[2] < 0 {
				continue
			}
		}
		piece := func(side int) []int32 { return ids[side][from[side]:to[side]] }
		side := 1
		if weDid, theyDid := !slices.Equal(piece(0), piece(1)), !slices.Equal(piece(0), piece(2)); !weDid {
			side = 2
		} else if theyDid && !slices.Equal(piece(1), piece(2)) {
			return nil, false
		}
		for _, line := range texts[side][from[side]:to[side]] {
			merged = append(merged, line...)
		}
		if at < len(ids[0]) {
			merged = append(merged, texts[0][at]...)
		}
		from = [3]int{to[0] + 1, to[1] + 1, to[2] + 1}
	}
	return merged, true
}

// keptLines says of each line where each shortest way from some lines to others has it
// afterwards, or -1 where they don't agree. It isn't ok where that takes too long to find.
func keptLines(before, after []int32) (places []int, ok bool) {
	for most := 32; ; most *= 2 {
		w, ok := newWays(before, after, most)
		if !ok {
			return nil, false
		}
		if least := w.forward(); least <= most {
			return w.back(least), true
		}
	}
}

// ways are the ways from some lines to others that take and add a number of lines at most.
// After a line before and a line after, the steps so far are at the row of the former and
// in the column of how much the latter is ahead of it.
type ways struct {
	before, after []int32
	low, high     int // how much after may be ahead
	width         int
	steps         []uint16
}

const noWay = math.MaxUint16

func newWays(before, after []int32, most int) (*ways, bool) {
	ahead := len(after) - len(before)
	most = max(most, ahead, -ahead)
	w := &ways{before: before, after: after, low: max(-(most-ahead)/2, -len(before)), high: min((most+ahead)/2, len(after))}
	w.width = w.high - w.low + 1
	cells := (len(before) + 1) * w.width
	if cells > maxAligned || most >= noWay/2 {
		return nil, false
	}
	w.steps = make([]uint16, cells)
	return w, true
}

// columns are those of a row that lie within the lines after.
func (w *ways) columns(row int) (from, to int) {
	return max(0, -row-w.low), min(w.width, len(w.after)-row-w.low+1)
}

// forward counts the fewest steps to each place, and to the end.
func (w *ways) forward() (least int) {
	for row := range len(w.before) + 1 {
		here := w.steps[row*w.width : (row+1)*w.width]
		for n := range here {
			here[n] = noWay
		}
		from, to := w.columns(row)
		for col := from; col < to; col++ {
			at, best := row+w.low+col, uint16(noWay)
			switch {
			case row == 0 && at == 0:
				best = 0
			case row > 0:
				above := w.steps[(row-1)*w.width : row*w.width]
				if at > 0 && w.before[row-1] == w.after[at-1] {
					best = above[col]
				}
				if col+1 < w.width && above[col+1] != noWay {
					best = min(best, above[col+1]+1)
				}
			}
			if col > from && here[col-1] != noWay {
				best = min(best, here[col-1]+1)
			}
			here[col] = best
		}
	}
	return int(w.steps[len(w.before)*w.width+len(w.after)-len(w.before)-w.low])
}

// back counts the fewest steps from each place to the end, and finds which lines all
// shortest ways keep.
func (w *ways) back(least int) (places []int) {
	places = make([]int, len(w.before))
	below, here := make([]uint16, w.width), make([]uint16, w.width)
	for row := len(w.before); row >= 0; row-- {
		for n := range here {
			here[n] = noWay
		}
		kept, taken := []int(nil), false
		from, to := w.columns(row)
		for col := to - 1; col >= from; col-- {
			at, so, best := row+w.low+col, int(w.steps[row*w.width+col]), uint16(noWay)
			if row == len(w.before) && at == len(w.after) {
				best = 0
			}
			if row < len(w.before) && at < len(w.after) && w.before[row] == w.after[at] {
				if best = below[col]; so+int(best) == least {
					kept = append(kept, at)
				}
			}
			if row < len(w.before) && col > 0 && below[col-1] != noWay {
				best = min(best, below[col-1]+1)
				taken = taken || so+int(below[col-1])+1 == least
			}
			if col+1 < to && here[col+1] != noWay {
				best = min(best, here[col+1]+1)
			}
			here[col] = best
		}
		if row < len(w.before) {
			if places[row] = -1; len(kept) == 1 && !taken {
				places[row] = kept[0]
			}
		}
		below, here = here, below
	}
	return places
}
