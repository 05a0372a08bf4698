package detect

import "strings"

// command says with which flags a program takes a secret.
type command struct {
	name  string
	flags string // separated by spaces; one that ends in "=" or ":" holds the secret itself, so does one marked with "+"
	pair  bool   // the value is user:secret (or user%secret)
}

var commands = []command{
	{name: "curl", flags: "-u -u+ --user --user= -U --proxy-user", pair: true},
	{name: "wget", flags: "--http-password= --password= --ftp-password="},
	{name: "httpie", flags: "-a --auth", pair: true},
	{name: "mysql", flags: "-p+"}, {name: "mysqldump", flags: "-p+"}, {name: "mysqladmin", flags: "-p+"}, {name: "mariadb", flags: "-p+"},
	{name: "sshpass", flags: "-p -p+"},
	{name: "docker login", flags: "-p"}, {name: "podman login", flags: "-p"}, {name: "buildah login", flags: "-p"}, {name: "skopeo login", flags: "-p"},
	{name: "nerdctl login", flags: "-p"}, {name: "registry login", flags: "-p"}, {name: "oc login", flags: "-p --token --token="}, {name: "az login", flags: "-p"},
	{name: "az acr login", flags: "-p"}, {name: "cf login", flags: "-p"}, {name: "cf auth", flags: ""}, {name: "ibmcloud login", flags: "-p --apikey"},
	{name: "redis-cli", flags: "-a --pass"}, {name: "mongo ", flags: "-p"}, {name: "mongosh", flags: "-p"}, {name: "mongodump", flags: "-p"}, {name: "mongorestore", flags: "-p"},
	{name: "sqlcmd", flags: "-P -P+"}, {name: "bcp ", flags: "-P"}, {name: "osql", flags: "-P"}, {name: "isql", flags: "-P"},
	{name: "smbclient", flags: "-U --user", pair: true}, {name: "rpcclient", flags: "-U", pair: true}, {name: "smbmap", flags: "-p"}, {name: "crackmapexec", flags: "-p"}, {name: "netexec", flags: "-p"}, {name: "evil-winrm", flags: "-p"},
	{name: "winexe", flags: "-U", pair: true}, {name: "psexec", flags: "-p"}, {name: "ldapsearch", flags: "-w -w+"}, {name: "ldapmodify", flags: "-w"}, {name: "ldapadd", flags: "-w"},
	{name: "rdesktop", flags: "-p"}, {name: "xfreerdp", flags: "/p: -p"}, {name: "cmdkey", flags: "/pass:"}, {name: "schtasks", flags: "/rp /p"}, {name: "wmic", flags: "/password:"},
	{name: "openssl", flags: "-passin -passout -pass -k"}, {name: "zip ", flags: "-P --password"}, {name: "unzip", flags: "-P"}, {name: "7z", flags: "-p+"}, {name: "rar ", flags: "-p+ -hp+"},
	{name: "keytool", flags: "-storepass -keypass"}, {name: "jarsigner", flags: "-storepass -keypass"}, {name: "signtool", flags: "/p"}, {name: "lftp", flags: "-u"},
	{name: "snmpwalk", flags: "-A -X"}, {name: "ipmitool", flags: "-P"}, {name: "nmcli", flags: "password"}, {name: "vncviewer", flags: "-passwd"}, {name: "svn ", flags: "--password"},
	{name: "htpasswd", flags: ""}, {name: "codecov", flags: "-t --token"}, {name: "net user", flags: ""}, {name: "net use", flags: ""}, {name: "twine", flags: "-p --password"}, {name: "ansible", flags: "-e"}, {name: "influx", flags: "-password -t --token"},
	{name: "wandb login", flags: ""}, {name: "huggingface-cli login", flags: "--token"}, {name: "vault login", flags: ""}, {name: "operator unseal", flags: ""}, {name: "helm", flags: "--password"}, {name: "argocd login", flags: "--password"},
	{name: "rabbitmqctl add_user", flags: ""}, {name: "rabbitmqctl change_password", flags: ""}, {name: "gpg", flags: "--passphrase"}, {name: "pscp", flags: "-pw"}, {name: "plink", flags: "-pw"}, {name: "putty", flags: "-pw"}, {name: "kinit", flags: "--password"},
}

const (
	longestCommands = 128 // commands at most
	longestLineEnd  = 512
	mostPositional  = 16 // words that are looked at for a secret by place
)

// commandHandler returns who looks behind the name of a program; index is that of the program.
func commandHandler(index int, program command) handler {
	flags := strings.Fields(program.flags)
	return func(s *scan, start, end int) {
		if start > 0 && (isAlnum(s.text[start-1]) || s.text[start-1] == '_') || end < len(s.text) && s.text[end-1] != ' ' && !isSpace(s.text[end]) && !strings.HasPrefix(s.text[end:], ".exe") {
			return
		}
		from := end
		if len(flags) > 0 {
			from = max(end, s.commands[index]) // the same program before has looked at the arguments up to there
		}
		line := s.text[from:max(from, min(len(s.text), end+longestLineEnd))]
		if stop := strings.IndexByte(line, '\n'); stop >= 0 {
			line = line[:stop]
		}
		if !s.goOn(len(line)) {
			return
		}
		if len(flags) == 0 {
			s.positional(program.name, line, end)
			return
		}
		for position := 0; position < len(line); {
			start, stop := nextArgument(line, position)
			if start == stop {
				return
			}
			s.flagArgument(program, flags, line, start, stop, from)
			position = stop
			s.commands[index] = from + stop
		}
	}
}

// nextArgument returns where the next word of a command line stands.
func nextArgument(line string, position int) (int, int) {
	for position < len(line) && isSpace(line[position]) {
		position++
	}
	start := position
	if start < len(line) && (line[start] == '\'' || line[start] == '"') {
		if length := strings.IndexByte(line[start+1:], line[start]); length >= 0 {
			return start, start + length + 2
		}
	}
	for position < len(line) && !isSpace(line[position]) {
		position++
	}
	return start, position
}

func (s *scan) flagArgument(program command, flags []string, line string, start, stop, offset int) {
	argument := line[start:stop]
	for _, flag := range flags {
		glued := strings.HasSuffix(flag, "+") || strings.HasSuffix(flag, "=") || strings.HasSuffix(flag, ":")
		name := strings.TrimSuffix(flag, "+")
		switch {
		case glued && len(argument) > len(name)+2 && strings.HasPrefix(argument, name) && !strings.HasPrefix(argument, "--p"):
			s.argumentSecret(program.pair, offset+start+len(name), offset+stop)
		case glued && strings.HasSuffix(flag, "=") && len(argument) > len(name)+2 && strings.HasPrefix(argument, name):
			s.argumentSecret(program.pair, offset+start+len(name), offset+stop)
		case !glued && argument == name:
			if from, to := nextArgument(line, stop); to > from && line[from] != '-' {
				s.argumentSecret(program.pair, offset+from, offset+to)
			}
		}
	}
}

// argumentSecret masks an argument, or what follows the user in it.
func (s *scan) argumentSecret(pair bool, start, end int) {
	for start < end && strings.IndexByte("'\"`\\", s.text[start]) >= 0 {
		start++
	}
	for end > start && strings.IndexByte("'\"`\\,;)", s.text[end-1]) >= 0 {
		end--
	}
	text := s.text[start:end]
	for _, source := range []string{"pass:", "env:", "file:", "stdin"} {
		if strings.HasPrefix(text, source) {
			if source != "pass:" {
				return
			}
			start += len(source)
			text = s.text[start:end]
		}
	}
	if pair {
		cut := strings.IndexAny(text, ":%")
		if cut < 0 {
			return
		}
		start += cut + 1
		text = s.text[start:end]
	}
	if len(text) < shortestSecret || isPlaceholder(text) || maskLength(text) > 0 || allBytes(text, isDigit) && len(text) < 6 {
		return
	}
	s.add(start, end, classPassword)
}

// positional masks the secret of commands that take it by place.
func (s *scan) positional(name, line string, offset int) {
	var words []span
	for position := 0; position < len(line) && len(words) < mostPositional; {
		start, stop := nextArgument(line, position)
		if start == stop {
			break
		}
		words = append(words, span{start, stop})
		position = stop
	}
	switch name {
	case "net user", "rabbitmqctl add_user", "rabbitmqctl change_password", "cf auth":
		if len(words) >= 2 && line[words[1].start] != '/' && (name != "net user" || strings.Contains(line, "/add") || len(words) == 2 && mixedWord(line[words[1].start:words[1].end])) {
			s.argumentSecret(false, offset+words[1].start, offset+words[1].end)
		}
	case "htpasswd":
		if last := len(words) - 1; last >= 3 && strings.HasPrefix(line[words[0].start:], "-") && strings.Contains(line[words[0].start:words[0].end], "b") {
			s.argumentSecret(false, offset+words[3].start, offset+words[3].end)
		}
	case "net use":
		for index, word := range words {
			text := line[word.start:word.end]
			if index+1 < len(words) && strings.HasPrefix(strings.ToLower(text), "/user:") && line[words[index+1].start] != '/' {
				s.argumentSecret(false, offset+words[index+1].start, offset+words[index+1].end)
			} else if index > 0 && strings.HasPrefix(line[words[index-1].start:], `\\`) && line[word.start] != '/' && mixedWord(text) {
				s.argumentSecret(false, offset+word.start, offset+word.end)
			}
		}
	default:
		if len(words) >= 1 && looksRandom(line[words[0].start:words[0].end], 16) {
			s.argumentSecret(false, offset+words[0].start, offset+words[0].end)
		}
	}
}

// mixedWord says whether a word has letters and digits or signs, as a password has.
func mixedWord(text string) bool {
	counted := shapeOf(text)
	return counted.length >= 5 && counted.letters() > 0 && (counted.digits > 0 || counted.other > 0)
}

// secureString masks the literal that PowerShell turns into a secure string.
func (s *scan) secureString(_, end int) {
	line := s.text[end:min(len(s.text), end+256)]
	open := strings.IndexAny(line, "\"'\n")
	if open < 0 || line[open] == '\n' {
		s.bareSecureString(line, end)
		return
	}
	length := strings.IndexByte(line[open+1:], line[open])
	if length >= shortestSecret {
		s.argumentSecret(false, end+open+1, end+open+1+length)
	}
}

// bareSecureString masks a literal without quotes that is forced into a secure string.
func (s *scan) bareSecureString(line string, offset int) {
	for position := 0; position < len(line); {
		start, stop := nextArgument(line, position)
		if start == stop || line[start] == '$' || line[start] == '(' {
			return
		}
		if line[start] != '-' {
			s.argumentSecret(false, offset+start, offset+stop)
			return
		}
		position = stop
	}
}

// passwordInput masks what is piped into --password-stdin, chpasswd and the like: echo secret | program.
func (s *scan) passwordInput(start, _ int) {
	line := s.text[max(0, start-256):start]
	offset := start - len(line)
	echo := max(strings.LastIndex(line, "echo "), strings.LastIndex(line, "printf "))
	if echo < 0 || strings.LastIndexByte(line, '\n') > echo {
		return
	}
	pipe := strings.IndexByte(line[echo:], '|')
	if pipe < 0 {
		return
	}
	for position := echo + strings.IndexByte(line[echo:], ' '); position < echo+pipe; {
		from, to := nextArgument(line, position)
		if from == to || from >= echo+pipe {
			return
		}
		if line[from] != '-' && !strings.HasPrefix(line[from:to], "'%s") && !strings.HasPrefix(line[from:to], `"%s`) {
			colon := strings.IndexByte(line[from:to], ':')
			s.argumentSecret(colon > 0, offset+from, offset+min(to, echo+pipe))
			return
		}
		position = to
	}
}

// identifiedBy masks the password of an SQL statement: IDENTIFIED BY 'secret', WITH PASSWORD 'secret'.
func (s *scan) identifiedBy(_, end int) {
	at := s.skipSpaces(end, 4)
	if hashed := "password "; len(s.text)-at > len(hashed) && strings.EqualFold(s.text[at:at+len(hashed)], hashed) {
		at += len(hashed)
	}
	if at >= len(s.text) || s.text[at] != '\'' && s.text[at] != '"' {
		return
	}
	length := strings.IndexByte(s.text[at+1:min(len(s.text), at+256)], s.text[at])
	if length >= shortestSecret {
		s.argumentSecret(false, at+1, at+1+length)
	}
}
