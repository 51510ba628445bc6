//! The attacks of the tests of the sandbox, as scripts.
//!
//! The variables in them: `OUT` is a folder outside of the workspace, `HOME` a home folder with secrets, `OTHER` a
//! process, `PORT` a TCP and UDP port, `ABSTRACT` an abstract socket, `SHARED` a file in the machine's shared memory,
//! `X_SERVER` the name of the sockets of an X server, `TTY` a terminal of the user, `BUS` a socket in `/tmp`,
//! `RUN_SOCKET` one in `/run`, and `DNS` the port of a resolver.

use super::Method;

/// An attack: what it tries, the methods that must stop it, and the script that prints `open` if it succeeds.
pub(crate) type Attack = (&'static str, &'static [Method], &'static str);

pub(crate) const ALL: &[Method] = &["namespaces", "bubblewrap", "landlock"];
pub(crate) const FULL: &[Method] = &["namespaces", "bubblewrap"];

/// What a careless or simple command tries.
pub(crate) const PLAIN: &[Attack] = &[
    ("write outside", ALL, "echo x > $OUT/new && echo open"),
    (
        "delete outside",
        ALL,
        "rm -f $OUT/victim-$$; touch $OUT/v && rm $OUT/v && echo open",
    ),
    (
        "append to a shell profile",
        ALL,
        "echo x >> $HOME/.profile && echo open",
    ),
    (
        "truncate a file outside",
        ALL,
        "python3 -c \"import os; os.truncate(os.environ['OUT']+'/file', 0)\" && echo open",
    ),
    ("change a mode outside", FULL, "chmod 777 $OUT/file && echo open"),
    (
        "change times outside",
        FULL,
        "touch -d 2001-01-01 $OUT/file && echo open",
    ),
    (
        "link a file from outside, and write it",
        ALL,
        "ln -f $OUT/file ln && echo x > ln && echo open",
    ),
    (
        "rename a file from outside into the workspace",
        ALL,
        "touch $OUT/m 2>/dev/null; mv $OUT/file here && mv here $OUT/file && echo open",
    ),
    (
        "write through a link to the outside",
        ALL,
        "ln -sfn $OUT link && echo x > link/new && echo open",
    ),
    (
        "win a race with a link to the outside",
        ALL,
        "mkdir -p d; python3 - <<'P'\nimport os\no=os.environ['OUT']\nif os.fork()==0:\n  for _ in range(2000):\n    for t in (o,'d'):\n      try: os.symlink(t,'race-new'); os.rename('race-new','race'); os.sched_yield()\n      except OSError: pass\n  os._exit(0)\n\
         while os.waitpid(-1,os.WNOHANG)[0]==0:\n  try: open('race/raced','w').close()\n  except OSError: pass\nos.remove(o+'/raced'); print('open')\nP",
    ),
    (
        "write a git hook",
        FULL,
        "echo x > .git/hooks/post-commit && rm .git/hooks/post-commit && echo open",
    ),
    ("write git settings", FULL, "echo >> .git/config && echo open"),
    (
        "replace git settings by a rename",
        FULL,
        "cp .git/config c && mv c .git/config && echo open",
    ),
    ("move .git away", FULL, "mv .git g && mv g .git && echo open"),
    (
        "write a task of the editor",
        FULL,
        "echo '{}' > .vscode/tasks.json && echo open",
    ),
    (
        "move .vscode away",
        FULL,
        "mv .vscode v && mv v .vscode && echo open",
    ),
    (
        "write cargo's settings",
        FULL,
        "echo >> .cargo/config.toml && echo open",
    ),
    (
        "read a private key",
        FULL,
        "grep -q secret $HOME/.ssh/id_ed25519 && echo open",
    ),
    (
        "list private keys",
        FULL,
        "ls $HOME/.ssh | grep -q id && echo open",
    ),
    (
        "read cloud credentials",
        FULL,
        "grep -rq secret $HOME/.aws && echo open",
    ),
    ("read a token", FULL, "grep -q secret $HOME/.npmrc && echo open"),
    (
        "read the store",
        FULL,
        "grep -rq secret $HOME/.local/share/agentls && echo open",
    ),
    (
        "read a key through /proc",
        FULL,
        "grep -q secret /proc/self/root$HOME/.ssh/id_ed25519 && echo open",
    ),
    (
        "see other processes",
        FULL,
        "[ -e /proc/$OTHER/status ] && echo open",
    ),
    (
        "read the environment of another process",
        ALL,
        "grep -q secret /proc/$OTHER/environ && echo open",
    ),
    ("signal another process", ALL, "kill -0 $OTHER && echo open"),
    (
        "trace another process",
        ALL,
        "python3 - <<'P'\nimport ctypes,os\nl=ctypes.CDLL(None)\np=int(os.environ['OTHER'])\nif l.ptrace(16,p,0,0)==0: os.waitpid(p,0x40000000); print('open') if l.ptrace(17,p,0,0)==0 else 0\nP",
    ),
    (
        "connect over TCP",
        ALL,
        "(: <> /dev/tcp/127.0.0.1/$PORT) && echo open",
    ),
    (
        "send over UDP",
        ALL,
        "python3 - <<'P'\nimport os,socket\ns=socket.socket(socket.AF_INET,socket.SOCK_DGRAM)\ns.connect(('127.0.0.1',int(os.environ['PORT'])))\ns.send(b'x'); s.send(b'x')\nprint('open')\nP",
    ),
    (
        "connect to a Unix socket",
        ALL,
        "python3 -c \"import os,socket; socket.socket(socket.AF_UNIX).connect(os.environ['OUT']+'/socket')\" && echo open",
    ),
    (
        "connect to an abstract socket",
        ALL,
        "python3 -c \"import os,socket; socket.socket(socket.AF_UNIX).connect('\\0'+os.environ['ABSTRACT'])\" && echo open",
    ),
    ("create a user namespace", ALL, "unshare -U true && echo open"),
    (
        "use io_uring",
        ALL,
        "python3 - <<'P'\nimport ctypes\nb=(ctypes.c_char*120)()\nl=ctypes.CDLL(None)\nprint('open') if l.syscall(425,4,b)>=0 else 0\nP",
    ),
    (
        "make a folder outside writable by a link",
        ALL,
        "echo x > .hg/by-link && echo open",
    ),
    (
        "read shared memory of the machine",
        FULL,
        "grep -q secret $SHARED && echo open",
    ),
];

/// Ways around the rules for files.
pub(crate) const FILES: &[Attack] = &[
    (
        "link a secret into the workspace",
        FULL,
        "ln -f $HOME/.ssh/id_ed25519 key && grep -q secret key && echo open",
    ),
    (
        "link git settings, and write them",
        FULL,
        "rm -f c; ln .git/config c && echo >> c && echo open",
    ),
    (
        "exchange .git with another folder",
        FULL,
        "mkdir -p fake && python3 - <<'P'\nimport ctypes\nl=ctypes.CDLL(None)\nswap=lambda: l.syscall(316,-100,b'.git',-100,b'fake',2)\nif swap()==0: swap(); print('open')\nP",
    ),
    (
        "move the folder around the settings of a submodule",
        FULL,
        "mv -T .git/modules/group .git/modules/g && mv -T .git/modules/g .git/modules/group && echo open",
    ),
    (
        "move the folder of all submodules",
        FULL,
        "mv -T .git/modules .git/m && mv -T .git/m .git/modules && echo open",
    ),
    (
        "move the folder around the settings of jj",
        FULL,
        "mv -T .jj/repo .jj/r && mv -T .jj/r .jj/repo && echo open",
    ),
    (
        "write git settings through another name of the folder",
        FULL,
        "ln -sfn .git alias && echo >> alias/config && echo >> /proc/self/cwd/.git/config && echo open",
    ),
    (
        "write where a link in the place of a folder leads",
        FULL,
        "echo >> conf/workspace.xml && echo > .zed/new && echo open",
    ),
    (
        "write where a link in the place of a file leads, in a folder that is writable",
        FULL,
        "echo >> .cargo/agents.md && echo open",
    ),
    (
        "write the settings of a linked work tree",
        FULL,
        "echo >> .git/worktrees/side/config.worktree && echo open",
    ),
    (
        "write a hook in a folder that git's settings name",
        FULL,
        "echo >> tools/hooks/pre-commit && echo > tools/hooks/post-commit && echo open",
    ),
    (
        "move the folder around hooks that git's settings name",
        FULL,
        "mv -T tools t && mv -T t tools && echo open",
    ),
    (
        "write a file that git's settings include",
        FULL,
        "echo >> shared/git && echo open",
    ),
    (
        "change git settings with git",
        FULL,
        "git config -f .git/config a.b c && echo open",
    ),
    (
        "win a race for a folder with rules",
        FULL,
        "python3 - <<'P'\nimport os\nif os.fork()==0:\n  for _ in range(2000):\n    for a,b in (('.vscode','v'),('v','.vscode')):\n      try: os.rename(a,b); os.sched_yield()\n      except OSError: pass\n  os._exit(0)\n\
         while os.waitpid(-1,os.WNOHANG)[0]==0:\n  try: open('.vscode/raced','w').close()\n  except OSError: pass\nos.remove('.vscode/raced'); print('open')\nP",
    ),
    (
        "win a race between a folder and a link, with a rename",
        ALL,
        "mkdir -p d; ln -sfn $OUT l; python3 - <<'P'\nimport os\no=os.environ['OUT']\nif os.fork()==0:\n  for _ in range(2000):\n    for a in ('d','l'):\n      try: os.rename(a,'moving'); os.sched_yield(); os.rename('moving',a)\n      except OSError: pass\n  os._exit(0)\n\
         while os.waitpid(-1,os.WNOHANG)[0]==0:\n  try: open('moving/renamed','w').close()\n  except OSError: pass\nos.remove(o+'/renamed'); print('open')\nP",
    ),
    (
        "write into a pipe outside",
        ALL,
        "timeout 5 bash -c 'echo x > $OUT/pipe' && echo open",
    ),
    (
        "write into the user's terminal",
        FULL,
        "printf x > $TTY && echo open",
    ),
];

/// Ways to other processes, namespaces, mounts, and privileges.
pub(crate) const PROCESSES: &[Attack] = &[
    (
        "read which files another process has open",
        ALL,
        "readlink /proc/$OTHER/fd/0 && echo open",
    ),
    (
        "enter the root of another process",
        ALL,
        "ls /proc/$OTHER/root/ && echo open",
    ),
    (
        "read the memory of another process",
        ALL,
        "python3 - <<'P'\nimport os\np=os.environ['OTHER']\na=int(open(f'/proc/{p}/maps').readline().split('-')[0],16)\nos.pread(os.open(f'/proc/{p}/mem',os.O_RDONLY),4,a); print('open')\nP",
    ),
    (
        "copy the memory of another process",
        ALL,
        "python3 - <<'P'\nimport ctypes\nimport os\np=os.environ['OTHER']\na=int(open(f'/proc/{p}/maps').readline().split('-')[0],16)\n\
         b=ctypes.create_string_buffer(4)\nclass V(ctypes.Structure): _fields_=[('p',ctypes.c_void_p),('n',ctypes.c_size_t)]\n\
         l=ctypes.CDLL(None)\nm=V(ctypes.addressof(b),4); t=V(a,4)\n\
         print('open') if l.process_vm_readv(int(p),ctypes.byref(m),1,ctypes.byref(t),1,0)==4 else 0\nP",
    ),
    (
        "take a file from another process",
        ALL,
        "python3 - <<'P'\nimport ctypes,os\nl=ctypes.CDLL(None)\nf=l.syscall(434,int(os.environ['OTHER']),0)\nprint('open') if f>=0 and l.syscall(438,f,0,0)>=0 else 0\nP",
    ),
    (
        "enter the namespaces of another process",
        ALL,
        "python3 - <<'P'\nimport ctypes,os\nl=ctypes.CDLL(None)\nf=os.open('/proc/'+os.environ['OTHER']+'/ns/mnt',os.O_RDONLY)\nprint('open') if l.setns(f,0)==0 else 0\nP",
    ),
    (
        "change the priority of another process",
        FULL,
        "renice -n 1 -p $OTHER && echo open",
    ),
    (
        "limit another process",
        ALL,
        "prlimit --pid $OTHER --nofile=1000:1000 && echo open",
    ),
    (
        "mount a file system",
        ALL,
        "mkdir -p mnt && unshare -Urm mount -t tmpfs none mnt && echo open",
    ),
    (
        "unmount what covers a secret",
        FULL,
        "umount -l $HOME/.ssh; umount -l $HOME/.ssh/id_ed25519; umount -l $HOME; grep -q secret $HOME/.ssh/id_ed25519 && echo open",
    ),
    (
        "make everything writable again",
        ALL,
        "mount -o remount,bind,rw /; mount -o remount,bind,rw $OUT; echo x > $OUT/remounted && echo open",
    ),
    (
        "change the root folder",
        ALL,
        "unshare -Ur chroot / true && echo open",
    ),
    (
        "create a namespace by clone",
        ALL,
        "python3 - <<'P'\nimport ctypes,os,signal\nl=ctypes.CDLL(None)\np=l.syscall(56,0x10000000|signal.SIGCHLD,0,0,0,0)\nif p==0: os._exit(0)\nprint('open') if p>0 else 0\nP",
    ),
    (
        "create a namespace by clone3",
        ALL,
        "python3 - <<'P'\nimport ctypes,os,struct\nl=ctypes.CDLL(None)\na=struct.pack('11Q',0x10000000,0,0,0,17,0,0,0,0,0,0)\np=l.syscall(435,a,len(a))\nif p==0: os._exit(0)\nprint('open') if p>0 else 0\nP",
    ),
    // Privileges.
    (
        "leave a set-uid or set-gid program by a command",
        ALL,
        "for m in u+s g+s 4755 2755; do cp /bin/true p && chmod $m p && echo open; rm -f p; done; \
         install -m 6755 /bin/true p && echo open; rm -f p",
    ),
    (
        "leave a set-uid or set-gid program by a call",
        ALL,
        "python3 - <<'P'\nimport ctypes,os,stat,struct\nl=ctypes.CDLL(None)\nh=lambda n:struct.pack('QQQ',os.O_CREAT|os.O_WRONLY,n,0)\n\
         t=lambda m:l.linkat(-100,b'/proc/self/fd/%d'%os.open('.',os.O_TMPFILE|os.O_RDWR,m),-100,b'p',1024)\n\
         n=lambda f:f(os.open('p',os.O_CREAT|os.O_RDWR,0o755))\n\
         for m in (0o4755,0o2755):\n  \
         for f in (lambda:l.syscall(2,b'p',os.O_CREAT|os.O_WRONLY,m),lambda:os.open('p',os.O_CREAT,m),lambda:l.syscall(85,b'p',m),\
         lambda:l.syscall(437,-100,b'p',h(m),24),lambda:os.mknod('p',stat.S_IFREG|m),lambda:l.syscall(133,b'p',stat.S_IFREG|m,0),lambda:t(m),\
         lambda:n(lambda f:os.fchmod(f,m)),lambda:n(lambda f:l.syscall(90,b'p',m)),lambda:n(lambda f:l.syscall(268,-100,b'p',m)),\
         lambda:n(lambda f:l.syscall(452,-100,b'p',m,0))):\n    \
         try: f()\n    except OSError: pass\n    \
         if os.path.exists('p'):\n      if os.stat('p').st_mode&0o6000: print('open')\n      os.remove('p')\nP",
    ),
    (
        "become another user by a set-uid program",
        ALL,
        "u=$($OUT/set-uid -u) && [ -n \"$u\" ] && [ \"$u\" != \"$(id -u)\" ] && echo open",
    ),
    (
        // With privileges, the loader ignores the variable.
        "start set-uid programs of the system",
        ALL,
        "export LD_SHOW_AUXV=1; env true | grep -q AT_SECURE || exit; for p in su mount; do \
         command -v $p > /dev/null && ! $p --version 2>&1 | grep -q AT_SECURE && echo open && break; done",
    ),
];

/// Ways to the network and to services.
pub(crate) const SOCKETS: &[Attack] = &[
    (
        "connect to a bus in the temporary folder",
        ALL,
        "python3 -c \"import os,socket; socket.socket(socket.AF_UNIX).connect(os.environ['BUS'])\" && echo open",
    ),
    (
        "connect to an X server by a path",
        ALL,
        "python3 -c \"import os,socket; socket.socket(socket.AF_UNIX).connect(os.environ['X_SERVER'])\" && echo open",
    ),
    (
        "connect to an X server by an abstract name",
        ALL,
        "python3 -c \"import os,socket; socket.socket(socket.AF_UNIX).connect('\\0'+os.environ['X_SERVER'])\" && echo open",
    ),
    (
        "send a message to a socket in the file system",
        ALL,
        "python3 -c \"import os,socket; socket.socket(socket.AF_UNIX,socket.SOCK_DGRAM).sendto(b'x',os.environ['OUT']+'/datagrams')\" && echo open",
    ),
    (
        "send a message from a pair of sockets",
        ALL,
        "python3 -c \"import os,socket; socket.socketpair(socket.AF_UNIX,socket.SOCK_DGRAM)[0].sendto(b'x',os.environ['OUT']+'/datagrams')\" && echo open",
    ),
    (
        "link a socket into the workspace, and connect",
        ALL,
        "ln -f $OUT/socket sock 2>/dev/null || ln -sfn $OUT/socket sock; python3 -c \"import socket; socket.socket(socket.AF_UNIX).connect('sock')\" && echo open",
    ),
    (
        "open a raw socket",
        ALL,
        "python3 -c \"import socket; socket.socket(socket.AF_INET,socket.SOCK_RAW,socket.IPPROTO_ICMP)\" && echo open",
    ),
    (
        "open a packet socket",
        ALL,
        "python3 -c \"import socket; socket.socket(socket.AF_PACKET,socket.SOCK_RAW)\" && echo open",
    ),
    (
        "open a socket of a virtual machine",
        ALL,
        "python3 -c \"import socket; socket.socket(40,socket.SOCK_STREAM)\" && echo open",
    ),
    (
        "open a socket for the kernel's ciphers",
        ALL,
        "python3 -c \"import socket; socket.socket(38,socket.SOCK_SEQPACKET)\" && echo open",
    ),
    // Names.
    (
        "ask a resolver about a name",
        ALL,
        "python3 - <<'P'\nimport os,socket\ns=socket.socket(socket.AF_INET,socket.SOCK_DGRAM); s.settimeout(20)\ns.connect(('127.0.0.1',int(os.environ['DNS'])))\n\
         s.send(bytes.fromhex('abcd01000001000000000000')+b'\\7example\\3com\\0\\0\\1\\0\\1')\nprint('open') if s.recv(512)[:3]==b'\\xab\\xcd\\x81' else 0\nP",
    ),
    (
        "send a query to the resolvers of the system",
        ALL,
        "python3 - <<'P'\nimport socket\nfor l in open('/etc/resolv.conf'):\n  w=l.split()\n  if len(w)<2 or w[0]!='nameserver': continue\n  try:\n    s=socket.socket(socket.AF_INET6 if ':' in w[1] else socket.AF_INET,socket.SOCK_DGRAM)\n    s.connect((w[1],53))\n    for _ in range(2): s.send(bytes.fromhex('abcd01000001000000000000')+b'\\7example\\3com\\0\\0\\1\\0\\1')\n    print('open'); break\n  except OSError: pass\nP",
    ),
    (
        "connect to a service in /run, such as a resolver",
        ALL,
        "for s in $RUN_SOCKET /run/systemd/resolve/io.systemd.Resolve /run/nscd/socket; do \
         python3 -c \"import socket,sys; socket.socket(socket.AF_UNIX).connect(sys.argv[1])\" $s 2> /dev/null && echo open && break; done",
    ),
    (
        "connect to a socket that another process made in the workspace, by a relative path",
        ALL,
        "python3 -c \"import socket; socket.socket(socket.AF_UNIX).connect('sub/relative')\" && echo open",
    ),
];

/// Calls to the kernel.
pub(crate) const KERNEL: &[Attack] = &[
    (
        "type into a terminal",
        ALL,
        "python3 - <<'P'\nimport fcntl,os,pty,termios\np,f=pty.fork()\nif p==0:\n  try: fcntl.ioctl(0,termios.TIOCSTI,b'x'); os._exit(0)\n  except OSError: os._exit(1)\nprint('open') if os.waitpid(p,0)[1]==0 else 0\nP",
    ),
    (
        "type into a terminal, with a longer request",
        ALL,
        "python3 - <<'P'\nimport ctypes,os,pty\np,f=pty.fork()\nif p==0:\n  os._exit(0 if ctypes.CDLL(None).syscall(16,0,ctypes.c_ulong(0x100005412),b'x')==0 else 1)\nprint('open') if os.waitpid(p,0)[1]==0 else 0\nP",
    ),
    (
        "use a keyring",
        ALL,
        "python3 -c \"import ctypes; print('open') if ctypes.CDLL(None).syscall(250,0,-3,1)>0 else 0\"",
    ),
    (
        "add a key",
        ALL,
        "python3 -c \"import ctypes; print('open') if ctypes.CDLL(None).syscall(248,b'user',b'agentls',b'x',1,-2)>0 else 0\"",
    ),
    (
        "watch the performance of processes",
        ALL,
        "python3 - <<'P'\nimport ctypes,struct\na=bytearray(128); struct.pack_into('IIQ',a,0,1,128,0); struct.pack_into('Q',a,40,1|32|64)\nb=(ctypes.c_char*128).from_buffer(a)\nprint('open') if ctypes.CDLL(None).syscall(298,b,0,-1,-1,0)>=0 else 0\nP",
    ),
    (
        "load a program into the kernel",
        ALL,
        "python3 - <<'P'\nimport ctypes,struct\na=struct.pack('IIIII',1,4,4,1,0)+bytes(100)\nprint('open') if ctypes.CDLL(None).syscall(321,0,a,len(a))>=0 else 0\nP",
    ),
    (
        "handle page faults",
        ALL,
        "python3 -c \"import ctypes; print('open') if ctypes.CDLL(None).syscall(323,1)>=0 else 0\"",
    ),
    (
        "open a file by its handle",
        ALL,
        "python3 - <<'P'\nimport ctypes,os\nl=ctypes.CDLL(None)\nh=bytearray(8+128); h[0]=128\nb=(ctypes.c_char*len(h)).from_buffer(h)\nm=ctypes.c_int()\nf=os.open('.',os.O_RDONLY)\nif l.name_to_handle_at(-100,(os.environ['OUT']+'/file').encode(),b,ctypes.byref(m),0)==0 and l.open_by_handle_at(f,b,os.O_RDWR)>=0: print('open')\nP",
    ),
    (
        "make a system call that is newer than the sandbox",
        ALL,
        "python3 -c \"import ctypes; print('open') if ctypes.CDLL(None).syscall(467,-100,b'/',0x80000,None,0)>=0 else 0\"",
    ),
    (
        "change a setting of the kernel",
        ALL,
        "v=$(cat /proc/sys/vm/swappiness) && echo $v > /proc/sys/vm/swappiness && echo open",
    ),
    (
        "change the name of the machine",
        ALL,
        "hostname \"$(hostname)\" && echo open",
    ),
];

/// Attacks that some machines deny to everybody, each with a script that says whether this one does. A container with a
/// seccomp filter may deny all of them. Everywhere else, each must be seen to succeed without the sandbox.
pub(crate) const MAY_FAIL_ANYWAY: &[(&str, &[&str])] = &[
    (
        // Ubuntu lets only chosen programs create user namespaces, and Debian had a switch.
        "cd /proc/sys; grep -qx 0 user/max_user_namespaces kernel/unprivileged_userns_clone || \
         grep -qx 1 kernel/apparmor_restrict_unprivileged_userns",
        &[
            "create a user namespace",
            "mount a file system",
            "change the root folder",
            "create a namespace by clone",
            "create a namespace by clone3",
        ],
    ),
    (
        // Yama lets a process trace only its own children.
        "grep -q '[1-3]' /proc/sys/kernel/yama/ptrace_scope",
        &[
            "trace another process",
            "copy the memory of another process",
            "take a file from another process",
        ],
    ),
    (
        // It is `open_tree_attr` of Linux 6.15.
        "v=$(uname -r) && [ \"$(printf '%s\\n' 6.15 \"$v\" | sort -V | head -n 1)\" != 6.15 ]",
        &["make a system call that is newer than the sandbox"],
    ),
    (
        "grep -q '[12]' /proc/sys/kernel/io_uring_disabled",
        &["use io_uring"],
    ),
    (
        "grep -qx 0 /proc/sys/dev/tty/legacy_tiocsti",
        &[
            "type into a terminal",
            "type into a terminal, with a longer request",
        ],
    ),
    (
        "grep -q '[3-9]' /proc/sys/kernel/perf_event_paranoid",
        &["watch the performance of processes"],
    ),
    // The kernel is built without these, or nothing loads their modules.
    (
        "! grep -q ^AF_VSOCK /proc/net/protocols",
        &["open a socket of a virtual machine"],
    ),
    (
        "! grep -q ^ALG /proc/net/protocols",
        &["open a socket for the kernel's ciphers"],
    ),
    ("! grep -q keyring /proc/keys", &["use a keyring", "add a key"]),
    (
        "! grep -q nameserver /etc/resolv.conf",
        &["send a query to the resolvers of the system"],
    ),
];

/// Attacks that need privileges, so that only root sees them succeed.
pub(crate) const ONLY_ROOT: &[&str] = &[
    "enter the namespaces of another process",
    "load a program into the kernel",
    "open a raw socket",
    "open a packet socket",
    "open a file by its handle",
    "change a setting of the kernel",
    "change the name of the machine",
];

/// Attacks that gain what root has already.
pub(crate) const ONLY_ORDINARY: &[&str] = &["start set-uid programs of the system"];

/// Attacks on what only root can prepare.
pub(crate) const PREPARED_BY_ROOT: &[&str] = &[
    "become another user by a set-uid program",
    "connect to a service in /run, such as a resolver",
];
