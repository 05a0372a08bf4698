package detect

import (
	"slices"
	"strings"
)

const (
	vendorReach     = 80
	longestVendorID = 600

	shortestVendorValue = 14
)

// vendorContext masks a random value behind a vendor's name and a word such as key or token: many vendors' tokens
// have no prefix of their own.
func (s *scan) vendorContext(start, end int) {
	if start > 0 && isLetter(s.text[start-1]) && !isUpper(s.text[start]) || end < len(s.text) && isLower(s.text[end]) && isLower(s.text[end-1]) && !startsSecretWord(s.text[end:]) {
		return
	}
	first, _ := slices.BinarySearchFunc(s.runs, end, func(run span, at int) int { return run.end - at })
	for _, run := range s.runs[first:] {
		if run.start > end+vendorReach {
			return
		}
		if run.start < end {
			continue // the run that the name itself stands in
		}
		gap := s.text[end:run.start]
		if strings.Count(gap, "\n") > 1 || !separates(gap) {
			return
		}
		if s.vendorValue(start, gap, run) {
			return
		}
	}
}

// isResourceName says whether a value is the name of a cloud's resource, such as arn:aws:kms:…:key/<uuid>.
func isResourceName(before, text string) bool {
	slash := strings.LastIndexByte(text, '/')
	return strings.HasSuffix(before, "arn:") || slash >= 0 && (isUUID(text[slash+1:]) || isDigest(text[slash+1:]))
}

func startsSecretWord(text string) bool {
	for _, word := range []string{"key", "token", "secret", "api", "pass", "auth", "client", "access", "app", "private", "sdk", "account", "user", "web"} {
		if strings.HasPrefix(text, word) {
			return true
		}
	}
	return false
}

// separates says whether a value may follow this gap: an assignment, a quote, or words in a sentence.
func separates(gap string) bool {
	return gap != "" && !strings.ContainsAny(gap[len(gap)-1:], "/-_.@#?&") || gap == ""
}

// vendorValue judges one run of token characters after a vendor's name.
func (s *scan) vendorValue(start int, gap string, run span) bool {
	text := s.text[run.start:run.end]
	if len(text) > longestVendorID || len(text) < shortestVendorValue {
		return false
	}
	if !s.goOn(stepsOfContext) {
		return true
	}
	power := contextStrength(strings.ToLower(s.text[max(0, start-24):start]), strings.ToLower(gap))
	if power == noSecret || run.end < len(s.text) && (s.text[run.end] == '(' || s.text[run.end] == '@') || run.start > 0 && s.text[run.start-1] == '@' {
		return false
	}
	named := endsWithSecretWord(gap)
	assigns := named || strings.ContainsAny(gap, "=:>\"'(,")
	switch {
	case isUUID(text):
		if power < strongName && !named || !assigns {
			return false
		}
	case isDigest(text):
		if power < tokenName || !assigns && power < strongName {
			return false
		}
	case isResourceName(s.text[max(0, start-4):start], text):
		return false
	case !looksRandom(text, shortestVendorValue) || shapeOf(text).digits < 2 && !named:
		return false
	}
	for run.end < len(s.text) && s.text[run.end] == '=' {
		run.end++
	}
	s.add(run.start, run.end, "vendor_credential")
	return true
}

// endsWithSecretWord says whether the last word before a value, but for "is" or a sign, is "key", "token" or the like.
func endsWithSecretWord(gap string) bool {
	gap = strings.TrimSuffix(strings.TrimRight(strings.ToLower(gap), " :='\""), " is")
	for _, word := range []string{"key", "token", "secret", "password", "api_key", "apikey", "pat", "auth", " -t"} {
		if strings.HasSuffix(gap, word) {
			return true
		}
	}
	return false
}

// contextStrength says how clearly the words between a vendor's name and a value speak of a credential.
func contextStrength(before, gap string) strength {
	for word := range strings.FieldsFuncSeq(gap, isNoWord) {
		if identifierWords[word] {
			return noSecret
		}
	}
	near := before + "\x00" + gap
	best := noSecret
	if strings.HasSuffix(gap, " -t ") {
		best = strongName
	}
	for word := range strings.FieldsFuncSeq(near, isNoWord) {
		switch {
		case strongContext[word]:
			best = max(best, strongName)
		case mildContext[word]:
			best = max(best, tokenName)
		case strings.HasSuffix(word, "key") || strings.HasSuffix(word, "token") || strings.HasSuffix(word, "secret"):
			best = max(best, tokenName)
		}
	}
	for _, phrase := range []string{"client_id", "client id", "client-id", "app_id", "app-id", "access_id", "consumer_id"} {
		if strings.Contains(near, phrase) {
			best = max(best, tokenName)
		}
	}
	if strings.Contains(near, "api_key") || strings.Contains(near, "api key") || strings.Contains(near, "api-key") {
		best = strongName
	}
	return best
}

func isNoWord(character rune) bool { return character > 0x7f || !isAlnum(byte(character)) }

var (
	strongContext = setOf(`apikey apitoken secret password passwd accesstoken accesskey secretkey authtoken clientsecret appkey appsecret
		privatekey pat sak subscriptionkey credential credentials`)
	mildContext = setOf(`key token auth oauth authorization bearer clientid appid pwd cred creds license webhook`)
	// identifierWords between a vendor's name and a value make the value an id, a digest or a name.
	identifierWords = setOf(`commit sha sha1 sha256 md5 digest checksum hash etag uuid trace span revision rev request requestid run version
		model checkpoint tokenizer path file image tokens blob tree ref branch tag fingerprint repo repository url job job_id build
		public pubkey session step rollout dataset batch`)
)

const vendorNames = `abuseipdb adafruit adobe adyen adzuna aha airbrake airtable aiven algolia alibaba aliyun alphavantage amadeus amazon amplitude anaconda
anthropic apify apigee apollo appcenter appdynamics appsflyer artifactory asana assemblyai atlassian auth0 authy avaza aweber aws axiom azure backblaze
bamboohr baremetrics basecamp baseten beamer bitbucket bitcoinaverage bitfinex bitly bittrex blazemeter blynk bombbomb box.com braintree branchio braze
brevo browserstack buddy bugsnag buildkite bunnycdn calendarific calendly campaignmonitor carto censys chatbot checkly checkvist cerebras circleci cisco clarifai clearbit
clickhouse clickup cliengo clockify cloudant cloudconvert cloudflare cloudinary cloudsmith cockroach codacy codeclimate codecov codemagic
cohere coinapi coinbase coinlayer coinmarketcap comet confluent consul contentful convertkit copper coralogix coveralls crowdin cryptocompare currencylayer
customerio cypress dashscope databento databricks datadog datarobot deepai deepgram deepl deepseek delighted deepinfra detectify dialogflow digitalocean discogs discord
disqus dnsimple docker dockerhub docusign dotmailer doppler dreamhost drip droneci dropbox duffel dynatrace easypost edamam elastic elasticemail elevenlabs etherscan
etsy eventbrite everhour exchangerate facebook fastly feedly figma filestack finage finicity finnhub firebase fireworks fixer flickr flightapi flutterwave fmp
foursquare freshbooks freshdesk freshservice front fullstory gcp gemini geckoboard gengo geoapify geocode getresponse ghost giphy gitea github gitlab gitter gnews
gocardless godaddy goodreads google grafana graphcms groq gumroad guru happyscribe harness harvest helicone hellosign helpscout here.com heroku hetzner
hive honeybadger honeycomb hotjar hubspot huggingface hunter hypertrack ibm ifttt imgur infobip influxdb infura insightly instagram instana intercom invoiceocean
ipdata ipgeolocation iphub ipify ipinfo ipquality ipstack jenkins jfrog jina jira jotform jumpcloud kaggle keen keycdn kickbox klaviyo kontent kraken kucoin langchain langfuse
langsmith lastfm launchdarkly leaseweb lemlist lightstep linear linkedin linode liveagent livestorm lob locationiq logdna loggly loginradius logz lokalise loqate
mailboxlayer mailchimp mailerlite mailgun mailjet mailmodo mandrill mapbox mapquest mashape mattermost maxmind mediastack mercury messagebird metaapi miro mistral mixpanel
mlflow moderation monday moonshot mongodb mux nasdaq neptune netlify neutrino newrelic newsapi nexmo nitro nightfall notion npm nvidia nylas nytimes ocr okta omnisend onedesk onelogin onesignal opencage
openai openrouter opensea openweather openweathermap opsgenie optimizely oracle ovh packagecloud pagerduty papertrail parseur passbase paypal paystack perplexity pexels phrase pingdom pinecone pinterest
pipedrive pivotaltracker pixabay plaid planetscale planview plivo polygon postageapp posthog postman postmark prefect printful privacy prodpad proxycrawl pubnub pulumi pusher quandl
quay quickbooks ramp rapidapi raygun razorpay readme rebrandly recaptcha redis replicate replit rescuetime resend riot rollbar runpod salesforce sambanova sauce
saucelabs scaleway scraperapi scrapingbee screenshotlayer securitytrails segment semrush sendbird sendgrid sendinblue sentiment sentry serpapi serpstack shodan shippo shopify
shortcut shotstack shutterstock sidekiq signalfx signalwire simfin slack slackbot smartsheet smooch snipcart snowflake snyk sonar sonarcloud sonarqube
soundcloud sourcegraph spacelift sparkpost splunk spoonacular spotify square squareup squarespace stability statuscake statuspage storyblok strava stripe sumologic supabase surge
surveymonkey survicate swell tailscale tatum tavily teamgate teamcity teamwork telegram telnyx tencent terraform textmagic thousandeyes tiingo todoist together
tomtom travis travisci trello twelvedata twilio twitch twitter typeform unify unsplash upcdn upstash uploadcare uptimerobot urlscan userstack vercel
victorops virustotal visualcrossing voicegain voyage vultr wakatime walkscore wandb weatherbit weatherstack webex webflow whoxy
wistia wordnik worldweather workos wepay yandex yelp youtube zapier zendesk zenserp zeplin zerobounce zoho zoom zonkafeedback xai kubernetes vault rabbitmq nuget rubygems
pypi wechat weixin alipay dingtalk feishu lark baidu volcengine zhipu dashscope minimax qianfan hunyuan stepfun siliconflow moonshot kimi cloudways jumpserver mapquest particle.io philips okex bitmex bybit gemini
wireguard openvpn nordvpn wpengine wordpress droplet hashicorp infracost intra42 jupyter crates hexpm bitrise lambdalabs ngrok zerotier teleport boundary nomad
`
