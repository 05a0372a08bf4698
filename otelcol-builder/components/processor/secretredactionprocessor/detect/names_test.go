package detect

import "testing"

func TestSecretKeysAreThoseWhoseValueIsASecretWhateverItLooksLike(t *testing.T) {
	d := newTestDetector(t)
	for _, key := range []string{
		"password", "db.password", "DB_PASSWORD", "dbPassword", "user_passwd", "api_key", "apiKey", "API-KEY", "x-api-key", "judge.api_key", "client_secret",
		"http.request.header.authorization", "authorization", "cookie", "http.response.header.set-cookie", "access_token", "refreshToken", "aws_secret_access_key",
		"secret", "private_key", "SECRET_KEY", "credentials", "passphrase", "auth_token", "db.password.value", "redis.requirepass", "signing_key",
	} {
		if !d.SecretKey(key) {
			t.Errorf("%s is not a secret key", key)
		}
	}
	for _, key := range []string{
		"gen_ai.usage.input_tokens", "gen_ai.usage.output_tokens", "gen_ai.request.max_tokens", "max_tokens", "token_count", "tokenizer", "eos.token.id", "pad_token",
		"token", "tokens", "key", "cache_key", "primary_key", "public_key", "key_states", "password_field", "secret_name", "api_key_id", "tokens_per_second", "pass", "rl.eval.pass",
		"auth.mode", "session.id", "rl.run.id", "service.instance.id", "messaging.kafka.message.key", "k8s.secret.name", "access_token_url", "api_version", "author", "passed", "",
		"http.request.header.content-type", "rl.group.key", "db.collection.name", "next_token", "password_reset", "token_type", "bypass",
	} {
		if d.SecretKey(key) {
			t.Errorf("%s is a secret key", key)
		}
	}
}

func TestNamesAreJudgedByTheirLastWords(t *testing.T) {
	for name, wanted := range map[string]strength{
		"spring.datasource.password": passwordName, "OPENAI_API_KEY": strongName, "judge_token": tokenName, "mySecret": tokenName, "key": weakName, "auth": weakName,
		"dbpassword": passwordName, "accesstoken": strongName, "PublicKeyToken": noSecret, "forward_pass": noSecret, "image_token": noSecret, "sort_key": noSecret,
		"api_key_2": strongName, "token_ids": noSecret, "keyboard": noSecret, "HTTPApiKey": strongName,
	} {
		if got := nameStrength(name); got != wanted {
			t.Errorf("%s: %d, wanted %d", name, got, wanted)
		}
	}
}

func TestValuesAreToldFromWords(t *testing.T) {
	for _, text := range []string{
		"checkpoint-500", "model-7b-instruct", "gpt-4o-mini-2024-07-18", "AutoModelForCausalLM", "APIKeysWithStreamingResponse", "step_0001200", "CustomAuthenticationType",
		"flash_attention_2", "Qwen2TokenizerFast", "my-service-key",
	} {
		if looksRandom(text, 8) {
			t.Errorf("%s looks random", text)
		}
	}
	for _, text := range []string{plantedToken, "f0e1d2c3b4a5968778695a4b3c2d1e0f", "1TspNRH45HZQ81ozHu1JMW8rYj5BW1jU", "Zx9-qT2_vB7nKp4R"} {
		if !looksRandom(text, 8) {
			t.Errorf("%s does not look random", text)
		}
	}
}

func TestPlaceholdersAreNoSecrets(t *testing.T) {
	for _, text := range []string{
		"changeme", "YOUR_API_KEY_HERE", "<token>", "${DB_PASSWORD}", "$(cat /run/secret)", "{{ password }}", "$TOKEN", "%PASSWORD%", "********", "xxxxxxxx", "null", "[FILTERED]",
		"aaaaaaaaaa", "abcdefghijklmnop", "@Password", "sk-XXXXXXXXXXXX", "arn:aws:secretsmanager:x", "op://vault/item",
	} {
		if !isPlaceholder(text) {
			t.Errorf("%s is no placeholder", text)
		}
	}
	for _, text := range []string{plantedPassword, plantedToken, "$2x!Gravel", "hunter22", "p@ss-4821", "%Lantern77"} {
		if isPlaceholder(text) {
			t.Errorf("%s is a placeholder", text)
		}
	}
}
