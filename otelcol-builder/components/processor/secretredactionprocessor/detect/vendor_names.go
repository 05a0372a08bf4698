package detect

// vendorNames are services whose credentials are often digests or UUIDs: beside one of these a "key" may be such a value.
var vendorNames = setOf(`abuseipdb adafruit adobe adyen adzuna aha airbrake airtable aiven algolia alibaba alipay aliyun alphavantage amadeus amazon amplitude
anaconda anthropic apify apigee apollo appcenter appdynamics appsflyer artifactory asana assemblyai atlassian auth0 authy avaza aweber aws
axiom azure backblaze baidu bamboohr baremetrics basecamp baseten beamer bitbucket bitcoinaverage bitfinex bitly bitmex bitrise bittrex
blazemeter blynk bombbomb boundary braintree branchio braze brevo browserstack buddy bugsnag buildkite bunnycdn bybit calendarific calendly
campaignmonitor carto censys cerebras chatbot checkly checkvist circleci cisco clarifai clearbit clickhouse clickup cliengo clockify cloudant
cloudconvert cloudflare cloudinary cloudsmith cloudways cockroach codacy codeclimate codecov codemagic cohere coinapi coinbase coinlayer
coinmarketcap comet confluent consul contentful convertkit copper coralogix coveralls crates crowdin cryptocompare currencylayer customerio
cypress dashscope databento databricks datadog datarobot deepai deepgram deepinfra deepl deepseek delighted detectify dialogflow digitalocean
dingtalk discogs discord disqus dnsimple docker dockerhub docusign doppler dotmailer dreamhost drip droneci dropbox droplet duffel dynatrace
easypost edamam elastic elasticemail elevenlabs etherscan etsy eventbrite everhour exchangerate facebook fastly feedly feishu figma filestack
finage finicity finnhub firebase fireworks fixer flickr flightapi flutterwave fmp foursquare freshbooks freshdesk freshservice front
fullstory gcp geckoboard gemini gengo geoapify geocode getresponse ghost giphy gitea github gitlab gitter gnews gocardless godaddy goodreads
google grafana graphcms groq gumroad guru happyscribe harness harvest hashicorp helicone hellosign helpscout heroku hetzner hexpm hive
honeybadger honeycomb hotjar hubspot huggingface hunter hunyuan hypertrack ibm ifttt imgur influxdb infobip infracost infura insightly
instagram instana intercom intra42 invoiceocean ipdata ipgeolocation iphub ipify ipinfo ipquality ipstack jenkins jfrog jina jira jotform
jumpcloud jumpserver jupyter kaggle keen keycdn kickbox kimi klaviyo kontent kraken kubernetes kucoin lambdalabs langchain langfuse langsmith
lark lastfm launchdarkly leaseweb lemlist lightstep linear linkedin linode liveagent livestorm lob locationiq logdna loggly loginradius logz
lokalise loqate mailboxlayer mailchimp mailerlite mailgun mailjet mailmodo mandrill mapbox mapquest mashape mattermost maxmind mediastack
mercury messagebird metaapi minimax miro mistral mixpanel mlflow moderation monday mongodb moonshot mux nasdaq neptune netlify neutrino
newrelic newsapi nexmo ngrok nightfall nitro nomad nordvpn notion npm nuget nvidia nylas nytimes ocr okex okta omnisend onedesk onelogin
onesignal openai opencage openrouter opensea openvpn openweather openweathermap opsgenie optimizely oracle ovh packagecloud pagerduty
papertrail parseur passbase paypal paystack perplexity pexels philips phrase pinecone pingdom pinterest pipedrive pivotaltracker pixabay
plaid planetscale planview plivo polygon postageapp posthog postman postmark prefect printful privacy prodpad proxycrawl pubnub pulumi pusher
pypi qianfan quandl quay quickbooks rabbitmq ramp rapidapi raygun razorpay readme rebrandly recaptcha redis replicate replit rescuetime
resend riot rollbar rubygems runpod salesforce sambanova sauce saucelabs scaleway scraperapi scrapingbee screenshotlayer securitytrails
segment semrush sendbird sendgrid sendinblue sentiment sentry serpapi serpstack shippo shodan shopify shortcut shotstack shutterstock sidekiq
signalfx signalwire siliconflow simfin slack slackbot smartsheet smooch snipcart snowflake snyk sonar sonarcloud sonarqube soundcloud
sourcegraph spacelift sparkpost splunk spoonacular spotify square squarespace squareup stability statuscake statuspage stepfun storyblok
strava stripe sumologic supabase surge surveymonkey survicate swell tailscale tatum tavily teamcity teamgate teamwork telegram teleport
telnyx tencent terraform textmagic thousandeyes tiingo todoist together tomtom travis travisci trello twelvedata twilio twitch twitter
typeform unify unsplash upcdn uploadcare upstash uptimerobot urlscan userstack vault vercel victorops virustotal visualcrossing voicegain
volcengine voyage vultr wakatime walkscore wandb weatherbit weatherstack webex webflow wechat weixin wepay whoxy wireguard wistia wordnik
wordpress workos worldweather wpengine xai yandex yelp youtube zapier zendesk zenserp zeplin zerobounce zerotier zhipu zoho zonkafeedback
zoom`)
