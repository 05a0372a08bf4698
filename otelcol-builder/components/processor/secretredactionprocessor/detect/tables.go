package detect

import "strings"

const (
	handlerTable  = 9
	handlerInsert = 10
	mostColumns   = 64
	longestRow    = 2048
)

// columns says what the names in the head of a table tell about the cells below them.
type columns struct {
	powers [mostColumns]strength
	count  int
	secret bool // one of them holds secrets
	owned  bool // one of them says whose the keys are
	empty  bool // one of them is none
}

// owners are heads of columns that make a column "key" one of credentials.
var owners = setOf("service vendor provider owner user username account tool host site app client team name")

func (c *columns) add(name string) {
	if c.count == mostColumns {
		return
	}
	power := noSecret
	if len(name) <= longestName {
		power = nameStrength(name)
		c.owned = c.owned || owners[strings.ToLower(name)]
	}
	c.empty = c.empty || name == ""
	c.powers[c.count] = power
	c.secret = c.secret || power != noSecret
	c.count++
}

// accepts says whether a cell of a column is a secret.
func (c *columns) accepts(column int, text string) bool {
	if column >= c.count || c.powers[column] == noSecret || len(text) < shortestSecret || isPlaceholder(text) || maskLength(text) > 0 {
		return false
	}
	switch power := c.powers[column]; {
	case power == passwordName:
		return mixedWord(text) && !strings.Contains(text, " ") && !isPath(text) && !isVersion(text)
	case power >= tokenName:
		return gradeOf(text) > noGrade || looksRandom(text, 10)
	default:
		return gradeOf(text) > idGrade || c.owned && gradeOf(text) == idGrade
	}
}

// table masks the cells below the head of a table, where a name in the head says that they are secrets.
func (s *scan) table(nameStart, nameEnd int) {
	if nameStart < s.done[handlerTable] {
		return
	}
	delimiter := s.delimiterBeside(nameStart, nameEnd)
	if delimiter == 0 {
		return
	}
	start := max(0, nameStart-longestRow)
	start += strings.LastIndexByte(s.text[start:nameStart], '\n') + 1
	end := s.lineEnd(nameEnd)
	s.done[handlerTable] = end
	if !isHead(s.text[start:end]) {
		return
	}
	var head columns
	for _, cell := range cellsOf(s.text[start:end], delimiter) {
		head.add(s.text[start+cell.start : start+cell.end])
	}
	if !head.secret || head.count < 2 || head.empty {
		return
	}
	for end < len(s.text) && s.text[end] == '\n' {
		start, end = end+1, s.lineEnd(end+1)
		line := s.text[start:end]
		if !s.goOn(stepsOfName + len(line)) {
			return
		}
		if strings.Trim(line, " \t\r|+-=:") == "" && len(line) > 1 {
			continue // the line below the head
		}
		cells := cellsOf(line, delimiter)
		if delimiter == ' ' && len(cells) == head.count+1 {
			cells = cells[1:] // behind the numbers of the rows
		}
		if len(cells) != head.count {
			break
		}
		for column, cell := range cells {
			if head.accepts(column, line[cell.start:cell.end]) {
				s.add(start+cell.start, start+cell.end, classOfName(head.powers[column]))
			}
		}
		s.done[handlerTable] = end
	}
}

// isHead says whether a line may be the head of a table: names of columns between signs, and no code.
func isHead(line string) bool {
	return allBytes(line, func(b byte) bool { return isNameByte(b) || strings.IndexByte(" ,;|\t\r\"'`*/", b) >= 0 })
}

// delimiterBeside returns the sign between a name and the next cell, or the one before; 0 for none.
func (s *scan) delimiterBeside(start, end int) byte {
	at := end
	for limit := min(len(s.text), at+mostGapBytes); at < limit && strings.IndexByte(" \"'`\r", s.text[at]) >= 0; {
		at++
	}
	if at < len(s.text) && strings.IndexByte(",;|\t", s.text[at]) >= 0 {
		return s.text[at]
	}
	if at < len(s.text) && s.text[at] != '\n' {
		return 0
	}
	if start > 2 && s.text[start-2:start] == "  " {
		return ' '
	}
	for limit := max(0, start-mostGapBytes); start > limit && strings.IndexByte(" \"'`", s.text[start-1]) >= 0; {
		start--
	}
	if start > 0 && strings.IndexByte(",;|\t", s.text[start-1]) >= 0 {
		return s.text[start-1]
	}
	return 0
}

// lineEnd returns where the line that holds a place ends; one that is too long for a row ends early.
func (s *scan) lineEnd(at int) int {
	limit := min(len(s.text), at+longestRow)
	if length := strings.IndexByte(s.text[at:limit], '\n'); length >= 0 {
		return at + length
	}
	return limit
}

// cellsOf cuts a line at a delimiter outside of quotes, and its cells out of blanks and quotes.
func cellsOf(line string, delimiter byte) []span {
	start, end := trimmed(line, 0, len(line), " \r")
	if delimiter == ' ' {
		return wordsOf(line, start, end)
	}
	if delimiter == '|' {
		start, end = trimmed(line, start, end, "|")
	}
	var cells []span
	for at := start; at <= end && len(cells) < mostColumns; at++ {
		from := at
		if at < end && line[at] == '"' {
			if length := strings.IndexByte(line[at+1:end], '"'); length >= 0 {
				at += length + 2
			}
		}
		for at < end && line[at] != delimiter {
			at++
		}
		left, right := trimmed(line, from, min(at, end), " \t\"'`*")
		cells = append(cells, span{left, right})
	}
	return cells
}

func wordsOf(line string, start, end int) []span {
	var cells []span
	for start < end && len(cells) < mostColumns {
		from := start
		for start < end && line[start] != ' ' {
			start++
		}
		cells = append(cells, span{from, start})
		start, _ = trimmed(line, start, end, " ")
	}
	return cells
}

func trimmed(text string, start, end int, signs string) (int, int) {
	for start < end && strings.IndexByte(signs, text[start]) >= 0 {
		start++
	}
	for end > start && strings.IndexByte(signs, text[end-1]) >= 0 {
		end--
	}
	return start, end
}

// insert masks the values of INSERT INTO table (name, password) VALUES ('mara', 'secret').
func (s *scan) insert(close, end int) {
	if close < s.done[handlerInsert] {
		return
	}
	s.done[handlerInsert] = end
	from := max(0, close-longestRow/2)
	open := strings.LastIndexByte(s.text[from:close], '(')
	if open < 0 {
		return
	}
	var head columns
	for name := range strings.SplitSeq(s.text[from+open+1:close], ",") {
		head.add(strings.Trim(name, " \t\r\n\"'`[]"))
	}
	head.owned = true
	for at := end; head.secret && at < len(s.text); {
		for at < len(s.text) && (isSpace(s.text[at]) || s.text[at] == ',') {
			at++
		}
		if at >= len(s.text) || s.text[at] != '(' || !s.goOn(stepsOfName) {
			return
		}
		at = s.insertedRow(at+1, &head)
		s.done[handlerInsert] = at
	}
}

// insertedRow masks the secrets of one row of values, and returns where it ends.
func (s *scan) insertedRow(at int, head *columns) int {
	for column := 0; at < len(s.text); column++ {
		at = s.skipSpaces(at, mostGapBytes)
		found := s.readValue(at, assigned)
		if !s.goOn(stepsOfLook) {
			return len(s.text)
		}
		if found.end > found.start && head.accepts(column, found.text) {
			s.add(found.start, found.end, classOfName(head.powers[column]))
		}
		at = max(at, found.end)
		for at < len(s.text) && s.text[at] != ',' && s.text[at] != ')' && s.text[at] != '\n' {
			at++
		}
		if at >= len(s.text) || s.text[at] != ',' {
			return min(at+1, len(s.text))
		}
		at++
	}
	return at
}
