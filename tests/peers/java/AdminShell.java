import java.io.BufferedReader;
import java.io.ByteArrayOutputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.Field;
import java.nio.charset.StandardCharsets;
import java.security.Permission;
import java.util.Arrays;
import java.util.List;
import org.apache.rocketmq.tools.command.MQAdminStartup;

/**
 * Runs mqadmin commands read from standard input, one a line: a number and the arguments, separated by U+001F.
 * Answers each with what the command printed, between the lines "@@begin NUMBER" and "@@end NUMBER".
 */
public class AdminShell {
    /** Thrown where a command would have ended the JVM. */
    static class Exit extends SecurityException {
    }

    @SuppressWarnings("removal")
    static void forbidExit() {
        try {
            System.setSecurityManager(new SecurityManager() {
                @Override
                public void checkExit(int status) {
                    throw new Exit();
                }

                @Override
                public void checkPermission(Permission permission) {
                }
            });
        } catch (UnsupportedOperationException e) {
            // Java 24 and later have no such guard: a command that exits ends the shell, and the test says so.
        }
    }

    /** Commands keep their client between runs and cannot use it twice: forget them, so that each run makes its own. */
    static void forgetCommands() throws Exception {
        for (Field field : MQAdminStartup.class.getDeclaredFields()) {
            if (field.getType() == List.class) {
                field.setAccessible(true);
                ((List<?>) field.get(null)).clear();
            }
        }
    }

    /**
     * A client's event thread sleeps for 3 s between looks at its stop flag, and shutdown waits for it: wake it,
     * or half of the commands take 3 s longer than they need.
     */
    static void hurryShutdowns(Thread shell) {
        Thread hurry = new Thread(() -> {
            while (true) {
                for (StackTraceElement frame : shell.getStackTrace()) {
                    if (frame.getClassName().endsWith(".ServiceThread") && frame.getMethodName().equals("shutdown")) {
                        Thread[] threads = new Thread[Thread.activeCount() + 16];
                        int count = Thread.enumerate(threads);
                        for (int i = 0; i < count; i++) {
                            if (threads[i].getName().startsWith("NettyEventExecutor")) {
                                threads[i].interrupt();
                            }
                        }
                        break;
                    }
                }
                try {
                    Thread.sleep(20);
                } catch (InterruptedException e) {
                    return;
                }
            }
        });
        hurry.setDaemon(true);
        hurry.start();
    }

    public static void main(String[] ignored) throws Exception {
        PrintStream answers = System.out;
        PrintStream errors = System.err;
        BufferedReader commands = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        System.setErr(new PrintStream(new ByteArrayOutputStream())); // the JVM's warning about the guard
        forbidExit();
        hurryShutdowns(Thread.currentThread());
        System.setErr(errors);
        answers.println("@@ready");
        for (String line; (line = commands.readLine()) != null; ) {
            String[] words = line.split("\u001f");
            ByteArrayOutputStream printed = new ByteArrayOutputStream();
            PrintStream stream = new PrintStream(printed, true, StandardCharsets.UTF_8);
            System.setOut(stream);
            System.setErr(stream);
            try {
                forgetCommands();
                MQAdminStartup.main0(Arrays.copyOfRange(words, 1, words.length), null);
            } catch (Exit e) {
                // it has printed why
            } catch (Throwable e) {
                e.printStackTrace();
            }
            stream.flush();
            answers.println("@@begin " + words[0]);
            answers.write(printed.toByteArray());
            answers.println("\n@@end " + words[0]);
            answers.flush();
        }
        Runtime.getRuntime().halt(0);
    }
}
