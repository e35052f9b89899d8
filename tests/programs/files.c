/* Files and names: a tree in memory, and what Linux says to wrong requests. Run as root. */
#include "verdict.h"
#include <dirent.h>
#include <fcntl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <stdlib.h>

#define E(call) ((call) == -1 ? -errno : 0)
#define V(call) ({ long v_ = (call); v_ == -1 ? -(long)errno : v_; })
#define TOP "/tmp/files"

static void is_a_new_file_empty_and_then_what_was_written(void)
{
	char back[16] = "";
	struct stat is;
	int f = open(TOP "/new", O_RDWR | O_CREAT | O_EXCL, 0640);
	EXPECT_TRUE(f >= 0, "create");
	EXPECT(V(read(f, back, 16)), 0, "empty");
	EXPECT(V(write(f, "hello world", 11)), 11, "write");
	EXPECT(V(pread(f, back, 16, 6)), 5, "pread");
	EXPECT(memcmp(back, "world", 5), 0, "what was written");
	EXPECT(V(pwrite(f, "W", 1, 6)), 1, "pwrite");
	EXPECT(V(lseek(f, 0, SEEK_CUR)), 11, "pwrite moves nothing");
	EXPECT(V(lseek(f, -5, SEEK_END)), 6, "from the end");
	EXPECT(V(read(f, back, 1)), 1, "read");
	EXPECT(back[0], 'W', "the new letter");
	EXPECT(E(fstat(f, &is)), 0, "fstat");
	EXPECT(is.st_size, 11, "size");
	EXPECT(is.st_mode, S_IFREG | 0640, "mode");
	EXPECT(is.st_nlink, 1, "links");
	EXPECT(V(lseek(f, -1, SEEK_SET)), -EINVAL, "before the start");
	close(f);
}

static void does_a_hole_read_as_zeros(void)
{
	char c = 1;
	struct stat is;
	int f = open(TOP "/hole", O_RDWR | O_CREAT, 0600);
	EXPECT(V(pwrite(f, "x", 1, 1 << 20)), 1, "far out");
	EXPECT(V(pread(f, &c, 1, 12345)), 1, "inside the hole");
	EXPECT(c, 0, "zero");
	EXPECT(E(fstat(f, &is)), 0, "fstat");
	EXPECT(is.st_size, (1 << 20) + 1, "size");
	EXPECT(is.st_blocks, 8, "one page");
	EXPECT(E(ftruncate(f, 10)), 0, "shorter");
	EXPECT(E(ftruncate(f, 1 << 20)), 0, "longer");
	EXPECT(V(pread(f, &c, 1, (1 << 20) - 1)), 1, "the end");
	EXPECT(c, 0, "what was cut is gone");
	EXPECT(E(ftruncate(f, -1)), -EINVAL, "negative");
	close(f);
}

static void does_append_write_at_the_end(void)
{
	char back[4] = "";
	int f = open(TOP "/append", O_RDWR | O_CREAT | O_APPEND, 0600);
	EXPECT(V(write(f, "ab", 2)), 2, "first");
	EXPECT(V(lseek(f, 0, SEEK_SET)), 0, "back");
	EXPECT(V(write(f, "cd", 2)), 2, "second");
	EXPECT(V(pread(f, back, 4, 0)), 4, "all");
	EXPECT(memcmp(back, "abcd", 4), 0, "in order");
	close(f);
	f = open(TOP "/append", O_WRONLY | O_TRUNC);
	EXPECT(V(lseek(f, 0, SEEK_END)), 0, "O_TRUNC");
	close(f);
}

static void what_does_open_refuse(void)
{
	EXPECT(V(open(TOP "/none", O_RDONLY)), -ENOENT, "not there");
	EXPECT(V(open(TOP "/new", O_CREAT | O_EXCL | O_RDWR, 0600)), -EEXIST, "there");
	EXPECT(V(open(TOP "/new/x", O_RDONLY)), -ENOTDIR, "below a file");
	EXPECT(V(open(TOP "/new/", O_RDONLY)), -ENOTDIR, "a slash behind a file");
	EXPECT(V(open(TOP, O_RDWR)), -EISDIR, "a directory for writing");
	EXPECT(V(open(TOP, O_RDONLY | O_CREAT, 0600)), -EISDIR, "create a directory");
	EXPECT(V(open(TOP "/new", O_RDONLY | O_DIRECTORY)), -ENOTDIR, "O_DIRECTORY");
	EXPECT(V(open("", O_RDONLY)), -ENOENT, "no name");
	EXPECT(V(open(TOP "/none/x", O_RDWR | O_CREAT, 0600)), -ENOENT, "no directory");
	EXPECT(V(open(TOP "/c/", O_RDWR | O_CREAT, 0600)), -EISDIR, "create with a slash");
}

static void do_links_lead_where_they_say(void)
{
	char target[64];
	struct stat is;
	EXPECT(E(symlink("new", TOP "/link")), 0, "symlink");
	EXPECT(V(readlink(TOP "/link", target, 64)), 3, "readlink");
	EXPECT(memcmp(target, "new", 3), 0, "the target");
	EXPECT(E(lstat(TOP "/link", &is)), 0, "lstat");
	EXPECT(is.st_mode, S_IFLNK | 0777, "a link");
	EXPECT(E(stat(TOP "/link", &is)), 0, "stat");
	EXPECT(is.st_size, 11, "the file");
	EXPECT(V(open(TOP "/link", O_RDONLY | O_NOFOLLOW)), -ELOOP, "O_NOFOLLOW");
	EXPECT(E(symlink("loop", TOP "/loop")), 0, "to itself");
	EXPECT(V(open(TOP "/loop", O_RDONLY)), -ELOOP, "a loop");
	EXPECT(E(symlink("made", TOP "/dangling")), 0, "to nothing");
	EXPECT(E(stat(TOP "/dangling", &is)), -ENOENT, "nothing");
	int f = open(TOP "/dangling", O_RDWR | O_CREAT, 0600);
	EXPECT_TRUE(f >= 0, "created through the link");
	close(f);
	EXPECT(E(stat(TOP "/made", &is)), 0, "there");
	EXPECT(E(link(TOP "/new", TOP "/second")), 0, "link");
	EXPECT(E(stat(TOP "/second", &is)), 0, "stat");
	EXPECT(is.st_nlink, 2, "two names");
	EXPECT(E(link(TOP, TOP "/hard")), -EPERM, "of a directory");
	EXPECT(E(link(TOP "/new", TOP "/second")), -EEXIST, "again");
	EXPECT(E(unlink(TOP "/second")), 0, "unlink");
	EXPECT(E(readlink(TOP "/new", target, 64)), -EINVAL, "no link");
}

static void do_directories_come_and_go(void)
{
	struct stat is;
	EXPECT(E(mkdir(TOP "/d", 0755)), 0, "mkdir");
	EXPECT(E(mkdir(TOP "/d", 0755)), -EEXIST, "again");
	EXPECT(E(mkdir(TOP "/d/e/", 0755)), 0, "a slash behind");
	EXPECT(E(stat(TOP "/d", &is)), 0, "stat");
	EXPECT(is.st_nlink, 3, "its own two, and one below");
	EXPECT(E(rmdir(TOP "/d")), -ENOTEMPTY, "not empty");
	EXPECT(E(rmdir(TOP "/d/e/.")), -EINVAL, "dot");
	EXPECT(E(rmdir(TOP "/d/e/..")), -ENOTEMPTY, "dot dot");
	EXPECT(E(rmdir("/")), -EBUSY, "the root");
	EXPECT(E(unlink(TOP "/d")), -EISDIR, "unlink of a directory");
	EXPECT(E(rmdir(TOP "/new")), -ENOTDIR, "rmdir of a file");
	EXPECT(E(rmdir(TOP "/d/e")), 0, "rmdir");
	EXPECT(E(mkdir("/", 0755)), -EEXIST, "the root");
	EXPECT(E(rmdir(TOP "/d")), 0, "rmdir");
	EXPECT(E(rmdir(TOP "/d")), -ENOENT, "gone");
}

static void does_rename_move_and_replace(void)
{
	struct stat is;
	EXPECT(E(mkdir(TOP "/a", 0755)), 0, "a");
	EXPECT(E(mkdir(TOP "/a/b", 0755)), 0, "a/b");
	close(open(TOP "/a/f", O_CREAT | O_RDWR, 0600));
	close(open(TOP "/g", O_CREAT | O_RDWR, 0644));
	EXPECT(E(rename(TOP "/a/f", TOP "/a/g")), 0, "in place");
	EXPECT(E(rename(TOP "/a/g", TOP "/g")), 0, "over another");
	EXPECT(E(stat(TOP "/g", &is)), 0, "there");
	EXPECT(is.st_mode & 0777, 0600, "the one that was moved");
	EXPECT(E(stat(TOP "/a/g", &is)), -ENOENT, "not where it was");
	EXPECT(E(rename(TOP "/a", TOP "/a/b/c")), -EINVAL, "into itself");
	EXPECT(E(rename(TOP "/a/b", TOP "/a")), -ENOTEMPTY, "over what it is in");
	EXPECT(E(rename(TOP "/g", TOP "/a")), -EISDIR, "a file over a directory");
	EXPECT(E(rename(TOP "/a", TOP "/g")), -ENOTDIR, "a directory over a file");
	EXPECT(E(rename(TOP "/none", TOP "/x")), -ENOENT, "nothing");
	EXPECT(E(rename(TOP "/a/b", TOP "/b")), 0, "a directory");
	EXPECT(E(stat(TOP "/a", &is)), 0, "stat");
	EXPECT(is.st_nlink, 2, "one less");
	EXPECT(E(syscall(SYS_renameat2, AT_FDCWD, TOP "/b", AT_FDCWD, TOP "/a", 1)), -EEXIST, "RENAME_NOREPLACE");
	EXPECT(E(syscall(SYS_renameat2, AT_FDCWD, TOP "/b", AT_FDCWD, TOP "/g", 2)), 0, "RENAME_EXCHANGE");
	EXPECT(E(stat(TOP "/b", &is)), 0, "stat");
	EXPECT_TRUE(S_ISREG(is.st_mode), "exchanged");
	EXPECT(E(rmdir(TOP "/g")), 0, "rmdir");
	EXPECT(E(unlink(TOP "/b")), 0, "unlink");
	EXPECT(E(rmdir(TOP "/a")), 0, "rmdir");
}

static void does_a_deleted_file_live_until_it_is_closed(void)
{
	char back[4];
	struct stat is;
	int f = open(TOP "/gone", O_RDWR | O_CREAT, 0600);
	EXPECT(E(unlink(TOP "/gone")), 0, "unlink");
	EXPECT(V(write(f, "abc", 3)), 3, "write");
	EXPECT(V(pread(f, back, 3, 0)), 3, "read");
	EXPECT(E(fstat(f, &is)), 0, "fstat");
	EXPECT(is.st_nlink, 0, "no name");
	close(f);
}

static void where_is_the_working_directory(void)
{
	char path[64];
	EXPECT(E(mkdir(TOP "/cwd", 0755)), 0, "mkdir");
	EXPECT(E(chdir(TOP "/cwd")), 0, "chdir");
	EXPECT(V(syscall(SYS_getcwd, path, 64)), (long)sizeof TOP "/cwd", "getcwd");
	EXPECT(strcmp(path, TOP "/cwd"), 0, "the path");
	EXPECT(V(syscall(SYS_getcwd, path, 5)), -ERANGE, "too short");
	int f = open("here", O_CREAT | O_RDWR, 0600);
	EXPECT_TRUE(f >= 0, "relative");
	EXPECT(E(fchdir(f)), -ENOTDIR, "no directory");
	close(f);
	EXPECT(E(chdir("..")), 0, "up");
	EXPECT(E(access("cwd/here", F_OK)), 0, "seen from above");
	EXPECT(E(unlink("cwd/here")), 0, "unlink");
	EXPECT(E(chdir("cwd")), 0, "down");
	EXPECT(E(rmdir(TOP "/cwd")), 0, "rmdir of where we are");
	EXPECT(V(syscall(SYS_getcwd, path, 64)), -ENOENT, "deleted");
	EXPECT(V(open("x", O_CREAT | O_RDWR, 0600)), -ENOENT, "nothing can be made there");
	EXPECT(E(chdir("/")), 0, "out");
}

static void are_names_relative_to_a_descriptor(void)
{
	int d = open(TOP, O_RDONLY | O_DIRECTORY);
	int f = openat(d, "at", O_CREAT | O_RDWR, 0600);
	EXPECT_TRUE(f >= 0, "openat");
	EXPECT(E(faccessat(d, "at", F_OK, 0)), 0, "faccessat");
	EXPECT(E(unlinkat(f, "at", 0)), -ENOTDIR, "a file as directory");
	EXPECT(E(unlinkat(99, "at", 0)), -EBADF, "nothing as directory");
	EXPECT(E(mkdirat(d, "sub", 0700)), 0, "mkdirat");
	EXPECT(E(unlinkat(d, "sub", AT_REMOVEDIR)), 0, "unlinkat");
	EXPECT(E(unlinkat(d, "at", 0)), 0, "unlinkat");
	close(f);
	close(d);
}

static void are_all_names_listed_once(void)
{
	char name[300];
	int seen = 0, dots = 0;
	EXPECT(E(mkdir(TOP "/many", 0755)), 0, "mkdir");
	for (int i = 0; i < 200; i++) {
		snprintf(name, sizeof name, TOP "/many/%d", i);
		close(open(name, O_CREAT | O_RDWR, 0600));
	}
	DIR *d = opendir(TOP "/many");
	EXPECT_TRUE(d, "opendir");
	for (struct dirent *e; (e = readdir(d));) {
		if (e->d_name[0] == '.') {
			dots++;
			continue;
		}
		seen++;
		snprintf(name, sizeof name, TOP "/many/%s", e->d_name);
		EXPECT(E(unlink(name)), 0, "delete while listing");
	}
	closedir(d);
	EXPECT(seen, 200, "names");
	EXPECT(dots, 2, "dots");
	EXPECT(E(rmdir(TOP "/many")), 0, "empty now");
}

static void do_modes_and_owners_bind_who_is_not_root(void)
{
	struct stat is;
	umask(022);
	close(open(TOP "/mode", O_CREAT | O_RDWR, 0666));
	EXPECT(E(stat(TOP "/mode", &is)), 0, "stat");
	EXPECT(is.st_mode & 07777, 0644, "the umask");
	EXPECT(E(chmod(TOP "/mode", 04755)), 0, "chmod");
	EXPECT(E(chown(TOP "/mode", 1000, 1000)), 0, "chown");
	EXPECT(E(stat(TOP "/mode", &is)), 0, "stat");
	EXPECT(is.st_mode & 07777, 0755, "the set-user-id bit is gone");
	EXPECT(is.st_uid, 1000, "owner");
	EXPECT(E(lchown(TOP "/mode", -1, 5)), 0, "group only");
	EXPECT(E(stat(TOP "/mode", &is)), 0, "stat");
	EXPECT(is.st_uid * 10 + is.st_gid, 10005, "as asked");
	EXPECT(E(unlink(TOP "/mode")), 0, "unlink");
}

static void are_times_set_as_asked(void)
{
	struct stat is;
	struct timespec times[2] = { { 1000, 5 }, { 2000, 6 } };
	close(open(TOP "/time", O_CREAT | O_RDWR, 0666));
	EXPECT(E(utimensat(AT_FDCWD, TOP "/time", times, 0)), 0, "both");
	EXPECT(E(stat(TOP "/time", &is)), 0, "stat");
	EXPECT(is.st_atim.tv_sec + is.st_atim.tv_nsec, 1005, "access");
	EXPECT(is.st_mtim.tv_sec + is.st_mtim.tv_nsec, 2006, "modification");
	times[0].tv_nsec = UTIME_OMIT;
	times[1].tv_nsec = UTIME_NOW;
	EXPECT(E(utimensat(AT_FDCWD, TOP "/time", times, 0)), 0, "one");
	EXPECT(E(stat(TOP "/time", &is)), 0, "stat");
	EXPECT(is.st_atim.tv_sec, 1000, "left");
	EXPECT_TRUE(is.st_mtim.tv_sec > 2000, "now");
	times[0].tv_nsec = 1000000000;
	EXPECT(E(utimensat(AT_FDCWD, TOP "/time", times, 0)), -EINVAL, "a bad time");
	EXPECT(E(unlink(TOP "/time")), 0, "unlink");
}

static void can_a_file_system_be_mounted_and_taken_away(void)
{
	struct stat below, above;
	struct statfs fs;
	EXPECT(E(mkdir(TOP "/m", 0700)), 0, "mkdir");
	EXPECT(E(stat(TOP "/m", &below)), 0, "stat");
	EXPECT(E(mount("none", TOP "/m", "nosuchfs", 0, NULL)), -ENODEV, "unknown");
	EXPECT(E(mount("none", TOP "/m", "tmpfs", 0, NULL)), 0, "mount");
	EXPECT(E(stat(TOP "/m", &above)), 0, "stat");
	EXPECT_TRUE(below.st_dev != above.st_dev, "another device");
	EXPECT(E(statfs(TOP "/m", &fs)), 0, "statfs");
	EXPECT(fs.f_type, 0x01021994, "tmpfs");
	int f = open(TOP "/m/x", O_CREAT | O_RDWR, 0600);
	EXPECT_TRUE(f >= 0, "create");
	EXPECT(E(rename(TOP "/m/x", TOP "/x")), -EXDEV, "across");
	EXPECT(E(rmdir(TOP "/m")), -EBUSY, "a mount point");
	EXPECT(E(umount(TOP "/m")), -EBUSY, "a file is open");
	close(f);
	EXPECT(E(umount(TOP "/m")), 0, "umount");
	EXPECT(E(umount(TOP "/m")), -EINVAL, "not mounted");
	EXPECT(E(mount("none", TOP "/m", "tmpfs", MS_RDONLY, NULL)), 0, "read-only");
	EXPECT(V(open(TOP "/m/x", O_CREAT | O_RDWR, 0600)), -EROFS, "create");
	EXPECT(E(umount2(TOP "/m", MNT_DETACH)), 0, "umount");
	EXPECT(E(rmdir(TOP "/m")), 0, "rmdir");
}

static void do_vectors_read_and_write(void)
{
	char a[3] = "", b[3] = "";
	struct iovec out[2] = { { "abc", 3 }, { "def", 3 } }, in[2] = { { a, 3 }, { b, 3 } };
	int f = open(TOP "/vector", O_CREAT | O_RDWR, 0600);
	EXPECT(V(pwritev(f, out, 2, 1)), 6, "pwritev");
	EXPECT(V(preadv(f, in, 2, 1)), 6, "preadv");
	EXPECT(memcmp(a, "abc", 3) | memcmp(b, "def", 3), 0, "contents");
	close(f);
	EXPECT(E(unlink(TOP "/vector")), 0, "unlink");
}

static void does_dev_have_its_devices(void)
{
	char c = 1;
	struct stat is;
	int null = open("/dev/null", O_RDWR), zero = open("/dev/zero", O_RDWR), full = open("/dev/full", O_RDWR);
	EXPECT(V(write(null, "x", 1)), 1, "null takes all");
	EXPECT(V(read(null, &c, 1)), 0, "null is empty");
	EXPECT(V(read(zero, &c, 1)), 1, "zero");
	EXPECT(c, 0, "zero");
	EXPECT(V(write(full, "x", 1)), -ENOSPC, "full");
	EXPECT(E(stat("/dev/null", &is)), 0, "stat");
	EXPECT(is.st_mode, S_IFCHR | 0666, "a character device");
	EXPECT(is.st_rdev, 0x103, "1, 3");
	close(null), close(zero), close(full);
}

int main(void)
{
	if (mkdir(TOP, 0755))
		return 2;
	ASK(is_a_new_file_empty_and_then_what_was_written);
	ASK(does_a_hole_read_as_zeros);
	ASK(does_append_write_at_the_end);
	ASK(what_does_open_refuse);
	ASK(do_links_lead_where_they_say);
	ASK(do_directories_come_and_go);
	ASK(does_rename_move_and_replace);
	ASK(does_a_deleted_file_live_until_it_is_closed);
	ASK(where_is_the_working_directory);
	ASK(are_names_relative_to_a_descriptor);
	ASK(are_all_names_listed_once);
	ASK(do_modes_and_owners_bind_who_is_not_root);
	ASK(are_times_set_as_asked);
	ASK(can_a_file_system_be_mounted_and_taken_away);
	ASK(do_vectors_read_and_write);
	ASK(does_dev_have_its_devices);
	return verdict_status();
}
