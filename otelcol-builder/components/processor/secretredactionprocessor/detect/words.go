package detect

import "strings"

// collectWords gathers what the first pass has to look for, and the rules that have no keyword.
func collectWords(rules []externalRule, personal personalData) ([]word, []int, error) {
	places := map[string]int{}
	var words []word
	place := func(text string) *word {
		text = strings.ToLower(text)
		index, ok := places[text]
		if !ok {
			index = len(words)
			places[text] = index
			words = append(words, word{text: text})
		}
		return &words[index]
	}
	own, err := ownWords(personal)
	if err != nil {
		return nil, nil, err
	}
	for text, handler := range own {
		entry := place(text)
		entry.handlers = append(entry.handlers, handler...)
	}
	var always []int
	for index, rule := range rules {
		if len(rule.keywords) == 0 {
			always = append(always, index)
		}
		for _, keyword := range rule.keywords {
			entry := place(keyword)
			entry.rules = append(entry.rules, index)
		}
	}
	return words, always, nil
}

const handlerKinds = 16

// ownWords are the words of the detector's own rules.
func ownWords(personal personalData) (map[string][]handler, error) {
	words := map[string][]handler{}
	add := func(list string, handler handler) {
		for _, text := range strings.Fields(list) {
			words[text] = append(words[text], handler)
		}
	}
	phrase := func(text string, handler handler) { words[text] = append(words[text], handler) }
	add(assignmentHint, (*scan).assignment)
	add("bearer", (*scan).bearer)
	add("basic", (*scan).basic)
	add("authorization", (*scan).authorization)
	add("cookie", (*scan).cookie)
	add("sig= signature=", (*scan).signedURL)
	add("code=", (*scan).accessCode)
	add("auth=( auth:( basicauth( basic_auth( login( networkcredential( .getconnection( directoryentry(", (*scan).accountPair)
	add("wallet(", (*scan).walletKey)
	add("scram-sha-256$ scram-sha-1$", (*scan).scramHash)
	phrase("ntlm)", (*scan).labelledHash)
	phrase("snmp-server community ", (*scan).community)
	phrase("login: ", (*scan).spokenAccount)
	phrase("creds: ", (*scan).spokenAccount)
	add("cc_test_reporter_id x-honeycomb-team", (*scan).namedID)
	add("recovery_code recovery-code recoverycode backup_code backup-code backupcode scratch_code mfa_code", (*scan).spareCode)
	phrase("recovery code", (*scan).spareCode)
	phrase("backup code", (*scan).spareCode)
	phrase("unseal key", (*scan).unsealKey)
	phrase("$ansible_vault;", (*scan).encryptedLines)
	add("mnemonic seed_phrase seedphrase recovery_phrase", (*scan).seedPhrase)
	phrase("seed phrase", (*scan).seedPhrase)
	phrase("recovery phrase", (*scan).seedPhrase)
	add("://", (*scan).address)
	add("jdbc:oracle:thin:", (*scan).oracle)
	add("@tcp( @unix( @//", (*scan).accountBefore)
	if personal.email {
		phrase("@", (*scan).emailAddress)
	}
	phrase("--begin ", (*scan).keyBlock)
	phrase("-- begin ", (*scan).keyBlock)
	phrase("private-lines:", (*scan).linesAfter)
	phrase("minisign encrypted secret key", (*scan).linesAfter)
	phrase(`"kty"`, (*scan).jsonWebKey)
	add("<rsakeyvalue>", (*scan).keyElements)
	add(hashStarts, (*scan).cryptHash)
	add(directorySchemes, (*scan).directoryHash)
	add(":::", (*scan).windowsHashes)
	add("secret password key md5 authentication-key", (*scan).deviceHash)
	add("convertto-securestring", (*scan).secureString)
	add("--password-stdin chpasswd passwd", (*scan).passwordInput)
	phrase("sudo -s", (*scan).passwordInput)
	phrase("az devops login", (*scan).passwordInput)
	phrase(") values", (*scan).insert)
	phrase("identified by", (*scan).identifiedBy)
	phrase("with password", (*scan).identifiedBy)
	if err := addVendors(func(text string, handler handler) { phrase(strings.ToLower(text), handler) }); err != nil {
		return nil, err
	}
	for index, program := range commands {
		phrase(program.name, commandHandler(index, program))
	}
	return words, nil
}
