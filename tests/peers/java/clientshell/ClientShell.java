import com.alibaba.fastjson.JSON;
import com.alibaba.fastjson.JSONObject;
import com.alibaba.fastjson.serializer.SerializerFeature;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;

/**
 * Apache's producers and consumers, many in one warm JVM, worked by a test through standard input.
 *
 * A command is one line of JSON, {"id": 7, "do": "send", …}; it is answered with the line "@@7 JSON", where JSON is
 * {"result": …} or {"error": {"type": …, "code": …, "message": …}}. Commands run at the same time, so several may wait.
 * Clients have names that the test gives them.
 */
public class ClientShell {
    interface Operation {
        Object run(JSONObject args) throws Exception;
    }

    static final PrintStream answers = System.out;
    static final Map<String, Operation> operations = new TreeMap<>();

    static {
        operations.put("producer", Sending::startProducer);
        operations.put("send", Sending::send);
        operations.put("push", PushConsumers::startPush);
        operations.put("received", PushConsumers::received);
        operations.put("assigned", PushConsumers::assigned);
        operations.put("persist", PushConsumers::persist);
        operations.put("unsubscribe", PushConsumers::unsubscribe);
        operations.put("lite", PullConsumers::startLite);
        operations.put("poll", PullConsumers::poll);
        operations.put("seek", PullConsumers::seek);
        operations.put("commit", PullConsumers::commit);
        operations.put("committed", PullConsumers::committed);
        operations.put("pull", PullConsumers::startPull);
        operations.put("pullFrom", PullConsumers::pullFrom);
        operations.put("drain", PullConsumers::drain);
        operations.put("queues", Questions::queues);
        operations.put("offsets", Questions::offsets);
        operations.put("createTopic", Questions::createTopic);
        operations.put("view", Questions::view);
        operations.put("query", Questions::query);
        operations.put("stop", Clients::stop);
    }

    static void answer(JSONObject command) {
        Map<String, Object> map = new TreeMap<>();
        try {
            map.put("result", operations.get(command.getString("do")).run(command));
        } catch (Throwable e) {
            map.put("error", Forms.described(e));
        }
        String line = "@@" + command.getString("id") + " "
            + JSON.toJSONString(map, SerializerFeature.WriteMapNullValue, SerializerFeature.DisableCircularReferenceDetect);
        synchronized (answers) {
            answers.writeBytes((line + "\n").getBytes(StandardCharsets.UTF_8));
            answers.flush();
        }
    }

    public static void main(String[] ignored) throws Exception {
        BufferedReader commands = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        ExecutorService threads = Executors.newCachedThreadPool();
        answers.println("@@ready");
        for (String line; (line = commands.readLine()) != null; ) {
            JSONObject command = JSON.parseObject(line);
            threads.execute(() -> answer(command));
        }
        System.exit(0);
    }
}
