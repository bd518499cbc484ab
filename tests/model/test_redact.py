"""Redaction of likely secrets in command lines."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleet_smi.model.redact import MAX_CANDIDATES, REDACTED, count_candidates, redact

X = REDACTED


@pytest.mark.parametrize(
    "command, shown",
    [
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
    ],
)
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
        *("mysql ", "mysql -p ", "curl -u", " -u a:b curl", "pw "),
    ],
)
def test_a_secret_is_looked_for_at_a_bounded_number_of_places(piece: str) -> None:
    line = "token " + piece * (100_000 // len(piece))
    assert count_candidates(line) <= MAX_CANDIDATES
    assert redact(redact(line)) == redact(line)


def test_what_follows_too_many_possible_secrets_is_cut() -> None:
    line = "key " * MAX_CANDIDATES
    assert redact(line + "--password hunter2") == line + "--" + REDACTED
    assert redact(line) == line
