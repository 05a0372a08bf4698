package detect

import "strings"

func setOf(words string) map[string]bool {
	set := map[string]bool{}
	for _, word := range strings.Fields(words) {
		set[word] = true
	}
	return set
}

// wordKind says what a word of a name tells about its value. A word may be of several kinds.
type wordKind uint16

const (
	trailingWord wordKind = 1 << iota
	passwordHead
	notAPasswordAfter
	gluedPassword
	strongHead
	weakHead
	modelToken
	strongToken
	plainKey
	strongKey
	codeWord
)

// wordKinds is one map, so that a word is looked up once.
var wordKinds = func() map[string]wordKind {
	kinds := map[string]wordKind{}
	for kind, words := range wordsOfKinds {
		for _, word := range strings.Fields(words) {
			kinds[word] |= kind
		}
	}
	return kinds
}()

var wordsOfKinds = map[wordKind]string{
	// Trailing words say which value, not that it is something other than the secret itself.
	trailingWord: `value val string str text plain plaintext clear cleartext base b64 encoded prod production dev
		development test testing staging live sandbox default old new current primary secondary main backup a b c v
		admin root env raw data private`,

	passwordHead: `pincode otp cvv password passwd passwort passphrase passcode passwrd requirepass bindpw rootpw psk wpapsk pwd pass psw psswd pw passw kennwort
		contrasena contraseña senha motdepasse passe wachtwoord пароль Пароль sshpass
		密码 密碼 口令 パスワード 비밀번호`,
	// These words turn a password's name into something else.
	notAPasswordAfter: `forward backward second first third one two render by single multi pre post low high band
		forgot reset no without is has show hide bool check multiple this type return to`,
	gluedPassword: `password passwd passwort passphrase passcode dbpass userpass rootpass adminpass dbpwd userpwd
		sqlpwd ftppass smtppass mailpass sshpass keypass storepass 密码 密碼 口令 パスワード 비밀번호`,

	strongHead: `apikey apitoken authtoken accesstoken refreshtoken secretkey accesskey privatekey privkey
		clientsecret appsecret apisecret secrettoken authkey masterkey encryptionkey signingkey accountkey sharedkey
		sharedaccesskey appkey consumersecret bottoken sessiontoken machinekey servicekey licensekey authsecret
		sharedsecret idtoken usertoken personaltoken securitytoken bearertoken oauthtoken jwttoken
		密钥 密鑰 秘钥 私钥 令牌 apiキー トークン 토큰 токен jeton clé clave chave ключ キー 키 geheimnis schlüssel schluessel zugangsdaten kennwort`,

	weakHead: `auth authorization credential credentials creds cred authentication bearer pat sas nonce salt seed
		license sig signature jwt session sessionid sid cookie dsn webhook sk ak tk appid`,

	// Codes behind these are passwords of digits: pin_code.
	codeWord: `pin otp mfa totp security cvv`,

	// Tokens behind these are pieces of text of a language model or a page's cursor, never credentials.
	modelToken: `eos bos pad unk mask cls sep special image audio video vision stop next prev previous last first
		start end begin current page continuation cancel cancellation vocab max min num per sub subword byte char added
		prompt completion think thinking tool decoder forced suppress input output text no any each one other by of
		single multi total average mean this new-line newline eot eom im bad good generated sampled draft target
		accepted rejected reward advantage logprob unexpected unknown invalid expected missing wrong illegal per-token the a every unit time inter between`,
	strongToken: `access auth api refresh bearer bot security session secret oauth oauth2 personal authentication
		authorization deploy app application user service account admin private client jwt csrf xsrf login master
		vault root registration push device upload write integration slack discord telegram github gitlab git npm pypi
		hf huggingface wandb sentry datadog`,

	// Keys behind these are keys of maps, tables and caches, public keys, and keys of a keyboard.
	plainKey: `primary foreign public cache sort partition routing lookup dict map unique index group state states
		hash range row column col config setting settings metric reward field translation locale message msg
		idempotency dedup shard object s3 storage-class redis join merge natural composite candidate surrogate hot arrow
		enter shift ctrl control tab escape function press up down left right random rng prng train dataset data query
		past attention value sharding bucket missing required unknown invalid duplicate first last next previous other
		this any each every the a for of by json yaml registry option feature label annotation tag header param
		parameter env pub answer piano low high musical order grouping batch item element node edge session-state
		pk fk no has is valid expected extra model layer weight tensor tokenizer prefix name pubkey exchange kid log`,
	strongKey: `api secret access private auth authentication authorization encryption encrypt decryption signing
		sign account master app application service storage subscription license client consumer server admin deploy
		rsa ssh aes hmac jwt shared webhook integration write ingest ingestion instrumentation sdk rest validation
		merchant live restricted secretapi apiv bot cipher crypto symmetric wallet pgp gpg function publishable sendgrid mailgun stripe twilio openai anthropic datadog
		newrelic algolia maps google firebase azure aws cohere mistral groq gemini pinecone replicate together
		deepseek openrouter tavily serp serpapi wandb langsmith langfuse comet neptune access-secret transit unseal
		recovery preshared psk csrf cookie flask django rails sentry fernet`,
}
