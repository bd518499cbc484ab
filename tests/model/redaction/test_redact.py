"""Redaction of likely secrets in command lines."""

import re
from collections.abc import Iterable, Mapping
from re import _parser
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleet_smi.model.redaction import line
from fleet_smi.model.redaction import redact as redact_module
from fleet_smi.model.redaction.line import CommandLine, Span
from fleet_smi.model.redaction.redact import MAX_CANDIDATES, REDACTED, redact
from fleet_smi.model.redaction.rules import RULES, Rule, flag_rules

X = REDACTED
JWT = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0"
KEY, END = "-----BEGIN RSA PRIVATE KEY-----", "-----END RSA PRIVATE KEY-----"


SECRETS = [
    ("app --password=hunter2 --lr 3", f"app --password={X} --lr 3"),
    ("app --password hunter2 --lr 3", f"app --password {X} --lr 3"),
    ("app --db-passwd 123456", f"app --db-passwd {X}"),
    ("PGPASSWORD=hunter2 psql", f"PGPASSWORD={X} psql"),
    ("app --hf-token abc", f"app --hf-token {X}"),
    ("app token=abc", f"app token={X}"),
    ("app accessToken=abc", f"app accessToken={X}"),
    ("WANDB_API_KEY=0123 python", f"WANDB_API_KEY={X} python"),
    ("AWS_SECRET_ACCESS_KEY=a/b+c python", f"AWS_SECRET_ACCESS_KEY={X} python"),
    ("app --client-secret=s3 x", f"app --client-secret={X} x"),
    ("curl -H 'Authorization: Bearer abc.d' u", f"curl -H 'Authorization: Bearer {X}' u"),
    ("curl -H 'X-Api-Key: abc' u", f"curl -H 'X-Api-Key: {X}' u"),
    ("git clone https://bob:pa@ss@git.org/x", f"git clone https://bob:{X}@git.org/x"),
    ("app redis://:pw@host:6379/0", f"app redis://:{X}@host:6379/0"),
    ('app {"password": "two words", "n": 1}', f'app {{"password": "{X}", "n": 1}}'),
    ("app AKIAIOSFODNN7EXAMPLE", f"app {X}"),
    ("app hf_abcdefghijklmnopqrstuvwx", f"app {X}"),
    ("app ghp_abcdefghijklmnopqrst0123", f"app {X}"),
    ("app sk-proj-abcDEF0123456789abcdEFGH", f"app {X}"),
    ("app eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.c2lnbmF0", f"app {X}"),
    ("app --key 0123456789abcdef0123456789", f"app --key {X}"),
    ("mysql -u bob -phunter2 db", f"mysql -u bob -p{X} db"),
    ("/usr/bin/mysqldump -h db -phunter2 db", f"/usr/bin/mysqldump -h db -p{X} db"),
    ("sshpass -p 'two words' ssh node", f"sshpass -p '{X}' ssh node"),
    ("bash -c 'curl -u bob:hunter2 https://h'", f"bash -c 'curl -u bob:{X} https://h'"),
    ("curl --user bob:hunter2 https://h", f"curl --user bob:{X} https://h"),
    ("redis-cli -h db -a hunter2 ping", f"redis-cli -h db -a {X} ping"),
    ("unzip -P hunter2 a.zip", f"unzip -P {X} a.zip"),
    ("smbclient //h/s -U bob%hunter2", f"smbclient //h/s -U bob%{X}"),
    ("docker login -u bob -p hunter2", f"docker login -u bob -p {X}"),
    ("app --pw hunter2", f"app --pw {X}"),
    ("app --db-pw=hunter2", f"app --db-pw={X}"),
    ("plink -pw hunter2 node", f"plink -pw {X} node"),
    ("app Server=db;Uid=bob;Pwd=hunter2", f"app Server=db;Uid=bob;Pwd={X}"),
    ("curl -suadmin:hunter2 h", f"curl -suadmin:{X} h"),
    ("curl -sSku admin:hunter2 h", f"curl -sSku admin:{X} h"),
    ("curl -U bob:hunter2 h", f"curl -U bob:{X} h"),
    ("curl --oauth2-bearer abcdefgh h", f"curl --oauth2-bearer {X} h"),
    ("curl -H 'Cookie: session=abc' h", f"curl -H 'Cookie: session={X}' h"),
    ("curl -H 'Authorization: Basic YTpi' h", f"curl -H 'Authorization: Basic {X}' h"),
    ("curl -H 'Private-Token: abc' h", f"curl -H 'Private-Token: {X}' h"),
    ("app --password -hunter2 --lr 3", f"app --password {X} --lr 3"),
    ("app --password '-hu x' --lr 3", f"app --password '{X}' --lr 3"),
    ("app --api-key -abc", f"app --api-key {X}"),
    ("app --token -a1b2c3d4e5", f"app --token {X}"),
    ("git clone https://abc0123@git.org/x", f"git clone https://{X}@git.org/x"),
    (f"git clone https://{'a1' * 20}:x-oauth-basic@h/x", f"git clone https://{X}@h/x"),
    ("git clone https://abc0123:@git.org/x", f"git clone https://{X}:@git.org/x"),
    ("git clone https://oauth2:abc@git.org/x", f"git clone https://oauth2:{X}@git.org/x"),
    (
        "SENTRY_DSN=https://abc0123@o1.sentry.io/2 app",
        f"SENTRY_DSN=https://{X}@o1.sentry.io/2 app",
    ),
    ("app --jwt abc", f"app --jwt {X}"),
    ("JWT=abc app", f"JWT={X} app"),
    ("app --pat abc", f"app --pat {X}"),
    ("GITHUB_PAT=abc app", f"GITHUB_PAT={X} app"),
    ("app --psk abc", f"app --psk {X}"),
    ("app --passcode 123456", f"app --passcode {X}"),
    ("app --secret-id abc", f"app --secret-id {X}"),
    ("app --creds abc", f"app --creds {X}"),
    ("SSHPASS=hunter2 sshpass -e ssh h", f"SSHPASS={X} sshpass -e ssh h"),
    ("MYSQL_PWD=hunter2 mysql", f"MYSQL_PWD={X} mysql"),
    ("keytool -storepass hunter2", f"keytool -storepass {X}"),
    ("ansible all -e ansible_become_pass=hunter2", f"ansible all -e ansible_become_pass={X}"),
    ("openssl rsa -passin pass:hunter2", f"openssl rsa -passin pass:{X}"),
    ("openssl enc -aes256 -k hunter2", f"openssl enc -aes256 -k {X}"),
    ("REDISCLI_AUTH=hunter redis-cli", f"REDISCLI_AUTH={X} redis-cli"),
    ("webui.py --gradio-auth bob:hunter2", f"webui.py --gradio-auth bob:{X}"),
    ('app {"auth": "Ym9iOmh1bnRlcjIgYm9i"}', f'app {{"auth": "{X}"}}'),
    (r"app {\"password\": \"hunter2\"}", rf'app {{\"password\": \"{X}"}}'),
    ("app {'api_key': 'abc'}", f"app {{'api_key': '{X}'}}"),
    ("jupyter lab --ServerApp.token=abc", f"jupyter lab --ServerApp.token={X}"),
    ("app http://h:8888/?token=abc", f"app http://h:8888/?token={X}"),
    (
        "azcopy https://a.blob.core/x?sv=1&sig=a%2Fb&se=2",
        f"azcopy https://a.blob.core/x?sv=1&sig={X}&se=2",
    ),
    ("wget https://s3/x?X-Amz-Signature=0f0f", f"wget https://s3/x?X-Amz-Signature={X}"),
    ("app AccountName=a;AccountKey=b/c==", f"app AccountName=a;AccountKey={X}"),
    (
        "app SharedAccessKeyName=root;SharedAccessKey=abc=",
        f"app SharedAccessKeyName=root;SharedAccessKey={X}",
    ),
    ("DD_APP_KEY=abc app", f"DD_APP_KEY={X} app"),
    ("HF_TOKEN=abc OPENAI_API_KEY=def app", f"HF_TOKEN={X} OPENAI_API_KEY={X} app"),
    (f"wandb login --relogin {'0f' * 20}", f"wandb login --relogin {X}"),
    ("vault login abcdefgh0123", f"vault login {X}"),
    ("ngrok config add-authtoken abcdefgh0123", f"ngrok config add-authtoken {X}"),
    (
        "aws configure set aws_secret_access_key a/b+c01234567890",
        f"aws configure set aws_secret_access_key {X}",
    ),
    ("mc alias set s3 https://h ACCESS SECRET", f"mc alias set s3 https://h {X}"),
    ("htpasswd -bc file bob hunter2", f"htpasswd -bc file bob {X}"),
    ("sqlplus -s bob/hunter2@db", f"sqlplus -s bob/{X}@db"),
    ("bash -c echo hunter2 | sudo -S reboot", f"bash -c echo {X} | sudo -S reboot"),
    ("skopeo login -p hunter2 h", f"skopeo login -p {X} h"),
    ("lftp -u bob,hunter2 h", f"lftp -u bob,{X} h"),
    ("xfreerdp /u:bob /p:hunter2 /v:h", f"xfreerdp /u:bob /p:{X} /v:h"),
    (
        "curl -d a https://hooks.slack.com/services/T0/B0/abc",
        f"curl -d a https://hooks.slack.com/services/{X}",
    ),
    ("curl https://api.telegram.org/bot1:abc/getMe", f"curl https://api.telegram.org/bot{X}"),
    (f"app {JWT}", f"app {X}"),
    ("app nvapi-abcDEF0123456789abcdEFGH", f"app {X}"),
    ("app sk-ant-api03-a-b-C-d-e-f-0-1-2-3-4-5-6-7-8", f"app {X}"),
    ("app fsmi_node_abcdefghijklmnopqrstuvwx", f"app {X}"),
    ("app dapi" + "0a" * 16, f"app {X}"),
    (f"app {KEY}MIIEow== AbC{END} x", f"app {KEY}{X}{END} x"),
    (f"app {KEY}MIIEow==", f"app {KEY}{X}"),
]


@pytest.mark.parametrize("command, shown", SECRETS)
def test_a_secret_is_redacted_and_its_name_stays(command: str, shown: str) -> None:
    assert redact(command) == shown


@pytest.mark.parametrize(
    "command",
    [
        "python train.py --lr 3e-4 --seed 42",
        "vllm serve --max-tokens 2048 --max_new_tokens=512 --tokenizer gpt2",
        "python run.py --eos-token </s> --pad_token <pad> --pad_token_id 0 --image-token 32000",
        "python run.py --use-token true --num_tokens=4",
        "ffmpeg -pass 1 -i in.mp4",
        "mysql --password --host db",
        "app --password-file /run/secrets/db",
        "app --sort-key name --key=left",
        "/opt/envs/sk-learn-gpu-experiments-2024/bin/python monkey.py",
        "torchrun --rdzv-endpoint=host:29500 --master-port 29500",
        "wget http://host:80/path?mail=a@b",
        "git clone ssh://git@github.com/x/y",
        "app -p 8080",
        "app password: --verbose",
        "pall bearer --verbosity=7",
        "PWD=/home/bob OLDPWD=/tmp python x",
        "mysql -u bob -p db",
        "curl -u bob https://host",
        "docker run -p 8080:80 -u 1000:1000 image",
        "python train.py -a resnet50 -p 10 -u x:y -w 4",
        "wget https://host/http -a log:1",
        "app --pwm 5",
        "python train.py --tokenizer gpt2 --max-tokens 5 --key-dim 64 --num-key-value-heads 8",
        "python train.py --token-dropout 0.1 --tokens-per-batch 4096 --keypoints 17 --auth none",
        "python -m sglang --tokenizer-path a/b --context-length 8192 --attention-backend fa3",
        "deepspeed --world_info=eyJsb2NhbGhvc3QiOiBbMCwgMSwgMiwgM119 train.py",
        "python train.py --data-path /data/pat --pattern x --patch 16 --patience 3",
        "python train.py --commit 0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f --task sk_learn",
        "python train.py --mask_ratio 0.5 --task_name mnli --author bob --authority x",
        "python train.py --bypass 1 --compass north --surpass=x",
        "yt-dlp --cookies cookies.txt https://h/v",
        "app --key /home/alice/projects/2024/key.pem",
        "mysql --password -h db",
        "curl -sSLo out https://host/user:x",
        "curl -o u:x -H a:b https://host",
        "git clone git+ssh://git@host/x && svn co svn+ssh://bob@host/x",
        "wget https://host/a@b?mail=c@d",
        "ssh-keygen -t ed25519 -C bob@host",
        "wandb login --relogin && wandb agent lab/sweep/abc",
        "echo done | tee log",
        "aws configure set region eu-central-1-longer",
        "app --cert -----BEGIN-CERTIFICATE-----",
        "torchrun --rdzv-id=0123456789abcdef0123456789 x.py",
        "snmpd -f && python -c print(1) -A x",
    ],
)
def test_what_is_not_a_secret_is_unchanged(command: str) -> None:
    assert redact(command) == command


PIECES = st.sampled_from(
    [
        *("password", "--password", "token", "--token", "key", "pass", "secret", "authorization"),
        *("bearer", "://", "a", "user", "=", ":", " ", "@", "/", '"', "'", "-", "_", ".", "1", X),
        *("AKIAIOSFODNN7EXAMPLE", "hf_abcdefghijklmnopqrst0123", "sk-", "eyJ", "0123456789abcdef"),
        *("\n", "\x00", "ü", "&", ",", "basic", "mysql ", " -p", "curl ", " -u ", "pw", "İ"),
        *(
            "curl -su",
            "https://",
            "jwt ",
            "auth=",
            "echo ",
            "|sudo -S",
            "-----BEGIN ",
            "-pat ",
            "\\",
        ),
    ]
)
LINES = st.lists(PIECES, max_size=14).map("".join) | st.text()


@given(LINES)
def test_redacting_twice_is_the_same_as_once(command: str) -> None:
    assert redact(redact(command)) == redact(command)


@given(
    name=st.sampled_from(["--password=", "API_KEY=", "--auth-token ", "secret: ", "db_pwd="]),
    secret=st.from_regex(r"[A-Za-z][A-Za-z0-9!$%^*+/.,;-]{7,30}", fullmatch=True),
    around=st.tuples(LINES, LINES),
)
def test_a_secret_is_redacted_whatever_surrounds_it(
    name: str, secret: str, around: tuple[str, str]
) -> None:
    before, after = (each.replace(secret, "") for each in around)
    command = f"{before} run {name}{secret} {after}"
    assert secret not in redact(command).replace(REDACTED, "")


@pytest.mark.parametrize(
    "piece",
    [
        *("://a:", "://", "@", "-token ", "--a-", "password", "authorization ", "sk-", "sk-ab-"),
        *("key=", '"', "token='", " -", "AKIA", "eyJ", "eyJaaaaaaaaaaaaaaaa.", "a", " ", "pass: "),
        *(
            "mysql ",
            "mysql -p ",
            "curl -u",
            " -u a:b curl",
            "pw ",
            "curl -s",
            "echo a|",
            "eyJaaa.eyJ",
        ),
        *("https://a@", "-----BEGIN PRIVATE KEY-----", "wandb login --a ", "auth=a:", "cookie=a="),
    ],
)
def test_a_secret_is_looked_for_at_a_bounded_number_of_places(
    piece: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    examined: list[int] = []

    def count(rules: Mapping[str, Rule]) -> dict[str, Rule]:
        def counted(rule: Rule) -> Rule:
            def examine(line: CommandLine, at: int) -> Span | None:
                examined.append(at)
                return rule(line, at)

            return examine

        return {word: counted(rule) for word, rule in rules.items()}

    monkeypatch.setattr(redact_module, "RULES", count(RULES))
    monkeypatch.setattr(redact_module, "flag_rules", lambda text: count(flag_rules(text)))
    line = "token " + piece * (100_000 // len(piece))
    redact.__wrapped__(line)
    assert 1 <= len(examined) <= MAX_CANDIDATES
    assert redact(redact(line)) == redact(line)


def test_what_follows_too_many_possible_secrets_is_cut() -> None:
    line = "key " * MAX_CANDIDATES
    assert redact(line + "--password hunter2") == line + "--" + REDACTED
    assert redact(line) == line


def test_no_pattern_takes_more_than_linear_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """At most one repeat without a limit in each, and that one not within another."""
    patterns: set[str] = set()
    compile_pattern = re.compile

    def record(pattern: str) -> re.Pattern[str]:
        patterns.add(pattern)
        return compile_pattern(pattern)

    line.compiled.cache_clear()
    redact.cache_clear()
    monkeypatch.setattr(re, "compile", record)
    for command, shown in SECRETS:
        assert redact(command) == shown
    assert len(patterns) > 20
    for pattern in patterns:
        assert unlimited_repeats(_parser.parse(pattern)) <= 1, pattern


def unlimited_repeats(parsed: Iterable[tuple[Any, Any]]) -> int:
    """Count the repeats without a limit that one match can go through; nested ones count twice."""
    total = 0
    for kind, argument in parsed:
        name = str(kind)
        if name in ("MAX_REPEAT", "MIN_REPEAT"):
            inner = unlimited_repeats(argument[2])
            is_unlimited = argument[1] == _parser.MAXREPEAT
            total += 2 * inner + 1 if is_unlimited else inner * argument[1]
        elif name == "SUBPATTERN":
            total += unlimited_repeats(argument[-1])
        elif name in ("ASSERT", "ASSERT_NOT"):
            total += unlimited_repeats(argument[1])
        elif name == "BRANCH":
            total += max(map(unlimited_repeats, argument[1]))
    return total
